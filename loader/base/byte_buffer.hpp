// Uninitialized, cache-line aligned bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace h5feed {

/// Heap bytes that are not zeroed on allocation (a decoded chunk overwrites every byte anyway) and
/// are aligned to 64 bytes for SIMD. Move-only. Throws std::bad_alloc.
class ByteBuffer {
 public:
  static constexpr std::size_t kAlignment = 64;

  ByteBuffer() = default;
  explicit ByteBuffer(std::size_t size) : size_(size) {
    if (size == 0) return;
    const std::size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    if (!data_) throw std::bad_alloc();
  }

  std::byte* data() noexcept { return data_.get(); }
  const std::byte* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  std::span<std::byte> span() noexcept { return {data_.get(), size_}; }
  std::span<const std::byte> span() const noexcept { return {data_.get(), size_}; }

  /// Makes room for `size` bytes; contents are lost when it grows, capacity is kept when it shrinks.
  void resize_discard(std::size_t size) {
    if (size > size_) *this = ByteBuffer(size);
  }

 private:
  struct Free {
    void operator()(std::byte* p) const noexcept { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace h5feed
