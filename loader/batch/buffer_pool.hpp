// Equal-sized buffers that are lent out and come back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace h5feed {

/// Recycled memory: fresh memory for every batch costs a page fault for every 4 KiB of it. Thread-safe.
/// A lease is a shared_ptr; when its last copy goes, on any thread, the buffer comes back. Leases stay
/// valid after the pool is gone, and free their memory then.
class BufferPool {
 public:
  /// Keeps at most `max_idle` buffers of `bytes` for reuse; lends as many as are asked for.
  BufferPool(std::size_t bytes, std::size_t max_idle);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  /// Never waits. Aligned to 64 bytes. Throws std::bad_alloc.
  std::shared_ptr<std::byte> acquire();

  std::size_t buffer_bytes() const noexcept;
  /// Buffers lent out now.
  std::size_t lent() const;
  /// Buffers allocated over the pool's life.
  std::uint64_t allocated() const;

 private:
  struct State;
  class Lease;
  std::shared_ptr<State> state_;
};

}  // namespace h5feed
