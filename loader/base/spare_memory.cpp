// SPDX-License-Identifier: Apache-2.0
#include "base/spare_memory.hpp"

namespace h5feed {

void SpareMemory::resize(const Size& size) noexcept {
  const MutexLock lock(mutex_);
  size_ = size;
  changed_.notify_all();
}

std::optional<SpareMemory::Loan> SpareMemory::borrow(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  const std::uint64_t ticket = next_ticket_++;
  while (served_ != ticket || (bytes <= size_.spare && lent_ > size_.spare - bytes)) changed_.wait(lock);
  ++served_;
  changed_.notify_all();
  if (bytes > size_.spare) return std::nullopt;
  lent_ += bytes;
  return Loan(*this, bytes);
}

SpareMemory::Size SpareMemory::size() const noexcept {
  const MutexLock lock(mutex_);
  return size_;
}

void SpareMemory::give_back(std::uint64_t bytes) noexcept {
  const MutexLock lock(mutex_);
  lent_ -= bytes;
  changed_.notify_all();
}

}  // namespace h5feed
