// SPDX-License-Identifier: Apache-2.0
// GPU memory that is accounted to a loader.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "cuda/runtime/handles.hpp"

namespace h5feed::gpu {

/// Bytes that one loader has allocated on one GPU, now and at most. Thread-safe.
class MemoryLedger {
 public:
  /// Counts an allocation.
  void add(std::uint64_t bytes) noexcept {
    const std::uint64_t now = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::uint64_t peak = peak_.load(std::memory_order_relaxed);
    while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }
  /// Counts a deallocation.
  void remove(std::uint64_t bytes) noexcept { bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

  /// Bytes allocated now.
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  /// Maximum of `bytes()` so far.
  std::uint64_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<std::uint64_t> peak_ = 0;
};

/// Owns device memory and counts it in a ledger for its own lifetime. Move-only; null after a move.
class CountedMemory {
 public:
  CountedMemory() = default;
  /// Allocates on the current device, which must be `place.device`. Throws CudaError; the message names the
  /// bytes.
  CountedMemory(std::size_t bytes, const CallPlace& place, std::shared_ptr<MemoryLedger> ledger)
      : memory_(make_device_memory(bytes, place)), bytes_(bytes), ledger_(std::move(ledger)) {
    ledger_->add(bytes_);
  }
  CountedMemory(CountedMemory&& other) noexcept = default;
  CountedMemory& operator=(CountedMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(ledger_, other.ledger_);
    return *this;
  }
  ~CountedMemory() {
    if (ledger_) ledger_->remove(bytes_);
  }

  std::byte* get() const noexcept { return static_cast<std::byte*>(memory_.get()); }

 private:
  DeviceMemory memory_;
  std::size_t bytes_ = 0;
  std::shared_ptr<MemoryLedger> ledger_;
};

/// Alignment in bytes that suits the vectorized loads and stores of the kernels; cudaMalloc guarantees it.
inline constexpr std::size_t kDeviceAlignment = 256;

/// Rounds a size up to a multiple of kDeviceAlignment.
inline std::size_t aligned_for_device(std::size_t bytes) noexcept {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

}  // namespace h5feed::gpu
