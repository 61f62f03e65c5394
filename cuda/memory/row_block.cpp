// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/row_block.hpp"

namespace h5feed::gpu {

RowBlock::Location RowBlock::enter(std::uint32_t row) {
  const MutexLock lock(mutex_);
  if (memory_.get() == nullptr) return {.saved = saved_.at(row).data()};
  ++entered_;
  return {.on_device = memory_.get() + row * pitch};
}

void RowBlock::leave() noexcept {
  const MutexLock lock(mutex_);
  --entered_;
}

bool RowBlock::entered() const {
  const MutexLock lock(mutex_);
  return entered_ > 0;
}

bool RowBlock::free_memory(cudaStream_t stream, const CallPlace& place) {
  const MutexLock lock(mutex_);
  if (entered_ > 0) return false;
  std::unordered_map<std::uint32_t, std::vector<std::byte>> saved;
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    if (rows[row].users.load(std::memory_order_acquire) > 0) saved[row].resize(pitch);
  }
  try {
    for (auto& [row, bytes] : saved) {
      check(cudaMemcpyAsync(bytes.data(), memory_.get() + row * pitch, pitch, cudaMemcpyDeviceToHost, stream),
            "cudaMemcpyAsync", place);
    }
  } catch (...) {
    ignore_error(cudaStreamSynchronize(stream));  // copies to `saved` may be running
    throw;
  }
  if (!saved.empty()) check(cudaStreamSynchronize(stream), "cudaStreamSynchronize", place);
  saved_ = std::move(saved);
  memory_ = CountedMemory();
  return true;
}

}  // namespace h5feed::gpu
