// SPDX-License-Identifier: Apache-2.0
// A pool of equal-sized buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace h5feed {

/// Recycles batch memory: fresh memory would cost one page fault per 4 KiB for every batch. A lease is a
/// shared_ptr; when its last copy is destroyed, on any thread, the buffer returns to the pool. Leases stay
/// valid after the pool is destroyed, and in a forked child, and then free their memory. Thread-safe.
class BufferPool {
 public:
  /// Creates a pool of buffers of `bytes`. Keeps at most `max_idle` idle buffers for reuse; the number of
  /// leases is not limited.
  BufferPool(std::size_t bytes, std::size_t max_idle);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  /// Returns a buffer aligned to 64 bytes, with unspecified contents. Never waits. Throws std::bad_alloc.
  std::shared_ptr<std::byte> acquire();

  /// Size of one buffer in bytes.
  std::size_t buffer_bytes() const noexcept;
  /// Number of buffers with a live lease.
  std::size_t lent() const;
  /// Number of buffers allocated over the lifetime of the pool.
  std::uint64_t allocated() const;

 private:
  struct State;
  class Lease;
  std::shared_ptr<State> state_;
};

}  // namespace h5feed
