// SPDX-License-Identifier: Apache-2.0
#include "cuda/copy_schedule.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace h5feed::gpu {

bool CopySchedule::is_due(std::uint64_t ticket, const std::shared_ptr<Batch>& assembled) {
  const MutexLock lock(mutex_);
  if (ticket < next_ticket_ + depth_) return true;
  parked_[ticket] = assembled;
  return false;
}

void CopySchedule::keep_error(std::uint64_t ticket, std::exception_ptr error) noexcept {
  try {
    const MutexLock lock(mutex_);
    errors_[ticket] = std::move(error);
  } catch (const std::bad_alloc&) {
    // The delivery finds that the batch was not copied and runs into the error itself.
  }
}

CopySchedule::Delivery CopySchedule::deliver(std::uint64_t ticket) {
  Delivery delivery;
  const MutexLock lock(mutex_);
  next_ticket_ = std::max(next_ticket_, ticket + 1);
  parked_.erase(ticket);
  const auto failed = errors_.find(ticket);
  if (failed != errors_.end()) delivery.error = failed->second;
  errors_.erase(errors_.begin(), errors_.upper_bound(ticket));
  while (!parked_.empty() && parked_.begin()->first < next_ticket_ + depth_) {
    delivery.due.push_back({parked_.begin()->first, parked_.begin()->second.lock()});
    parked_.erase(parked_.begin());
  }
  return delivery;
}

}  // namespace h5feed::gpu
