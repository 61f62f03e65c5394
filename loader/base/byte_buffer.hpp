// SPDX-License-Identifier: Apache-2.0
// An uninitialized, cache-line aligned byte buffer.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace h5feed {

/// Owns heap bytes, aligned to 64 bytes for SIMD; from 2 MiB on aligned to 2 MiB, with huge pages requested.
/// The bytes are not zeroed: a decoded chunk overwrites all of them. Move-only. Allocation throws
/// std::bad_alloc.
class ByteBuffer {
 public:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

  ByteBuffer() = default;
  explicit ByteBuffer(std::size_t size) : size_(size) {
    if (size == 0) return;
    // The first touch of fresh memory costs one fault per page. Large buffers therefore ask for 2 MiB pages;
    // the incomplete last one keeps small pages, so that it takes no memory that is not used.
    const std::size_t alignment = size < kHugePageBytes ? kAlignment : kHugePageBytes;
    const std::size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
    void* data = nullptr;
    if (::posix_memalign(&data, alignment, rounded) != 0) throw std::bad_alloc();
    data_.reset(static_cast<std::byte*>(data));
    if (size >= kHugePageBytes) ::madvise(data, size / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
  }

  std::byte* data() noexcept { return data_.get(); }
  const std::byte* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  std::span<std::byte> span() noexcept { return {data_.get(), size_}; }
  std::span<const std::byte> span() const noexcept { return {data_.get(), size_}; }

  /// Ensures at least `size` bytes. Contents are lost if the buffer grows; it never shrinks. Throws
  /// std::bad_alloc.
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
