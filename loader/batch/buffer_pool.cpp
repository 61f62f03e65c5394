// SPDX-License-Identifier: Apache-2.0
#include "batch/buffer_pool.hpp"

#include <utility>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/mutex.hpp"
#include "batch/fork_generation.hpp"

namespace h5feed {

struct BufferPool::State {
  State(std::size_t buffer_bytes, std::size_t max_idle_buffers)
      : bytes(buffer_bytes), max_idle(max_idle_buffers) {
    // Returning a buffer happens in a destructor and must not allocate.
    idle.reserve(max_idle);
  }

  const std::size_t bytes;
  const std::size_t max_idle;
  const std::uint64_t generation = fork_generation();
  Mutex mutex;
  std::vector<ByteBuffer> idle H5FEED_GUARDED_BY(mutex);
  bool closed H5FEED_GUARDED_BY(mutex) = false;
  std::size_t lent H5FEED_GUARDED_BY(mutex) = 0;
  std::uint64_t allocated H5FEED_GUARDED_BY(mutex) = 0;
};

/// Owns one buffer until its last user lets go, then returns it to the pool.
class BufferPool::Lease {
 public:
  Lease(std::shared_ptr<State> state, ByteBuffer buffer)
      : state_(std::move(state)), buffer_(std::move(buffer)) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (state_->generation != fork_generation()) return;  // a child of the pool's process only frees
    const MutexLock lock(state_->mutex);
    --state_->lent;
    if (!state_->closed && state_->idle.size() < state_->max_idle) state_->idle.push_back(std::move(buffer_));
  }

  std::byte* data() noexcept { return buffer_.data(); }

 private:
  std::shared_ptr<State> state_;
  ByteBuffer buffer_;
};

BufferPool::BufferPool(std::size_t bytes, std::size_t max_idle)
    : state_(std::make_shared<State>(bytes, max_idle)) {}

BufferPool::~BufferPool() {
  std::vector<ByteBuffer> idle;  // freed after the lock is released
  const MutexLock lock(state_->mutex);
  state_->closed = true;
  idle.swap(state_->idle);
}

std::shared_ptr<std::byte> BufferPool::acquire() {
  ByteBuffer buffer;
  {
    const MutexLock lock(state_->mutex);
    if (!state_->idle.empty()) {
      buffer = std::move(state_->idle.back());
      state_->idle.pop_back();
    } else {
      ++state_->allocated;
    }
    ++state_->lent;
  }
  try {
    if (buffer.data() == nullptr) buffer = ByteBuffer(state_->bytes);
    auto lease = std::make_shared<Lease>(state_, std::move(buffer));
    std::byte* const data = lease->data();
    return {std::move(lease), data};
  } catch (...) {
    const MutexLock lock(state_->mutex);
    --state_->lent;
    throw;
  }
}

std::size_t BufferPool::buffer_bytes() const noexcept { return state_->bytes; }

std::size_t BufferPool::lent() const {
  const MutexLock lock(state_->mutex);
  return state_->lent;
}

std::uint64_t BufferPool::allocated() const {
  const MutexLock lock(state_->mutex);
  return state_->allocated;
}

}  // namespace h5feed
