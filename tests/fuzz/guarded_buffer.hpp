// SPDX-License-Identifier: Apache-2.0
// Memory whose end is the end of a page that may be read: codec libraries are not instrumented, so
// AddressSanitizer alone would miss what they read or write too far.
#pragma once

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "fuzz/fuzz_target.hpp"

namespace h5feed::test::fuzz {

/// Room for `capacity` bytes at most. Not thread-safe.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t capacity) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    readable_ = (capacity + page - 1) / page * page;
    mapped_ = readable_ + page;
    void* const memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "memory for a guarded buffer");
    first_ = static_cast<std::byte*>(memory);
    require(mprotect(first_ + readable_, page, PROT_NONE) == 0, "a guard page");
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer() {
    ASAN_UNPOISON_MEMORY_REGION(first_, readable_);
    munmap(first_, mapped_);
  }

  /// The last `size` bytes, set to `fill`; the ones before are poisoned. Earlier spans become invalid.
  std::span<std::byte> filled(std::size_t size, std::byte fill) {
    const std::span<std::byte> bytes = last(size);
    std::fill(bytes.begin(), bytes.end(), fill);
    return bytes;
  }

  /// A copy of `bytes`, likewise.
  std::span<const std::byte> copy(std::span<const std::byte> bytes) {
    const std::span<std::byte> to = last(bytes.size());
    std::copy(bytes.begin(), bytes.end(), to.begin());
    return to;
  }

 private:
  std::span<std::byte> last(std::size_t size) {
    require(size <= readable_, "an input fits the buffer");
    ASAN_UNPOISON_MEMORY_REGION(first_, readable_);
    ASAN_POISON_MEMORY_REGION(first_, readable_ - size);
    return {first_ + readable_ - size, size};
  }

  std::byte* first_ = nullptr;
  std::size_t readable_ = 0;
  std::size_t mapped_ = 0;
};

}  // namespace h5feed::test::fuzz
