// SPDX-License-Identifier: Apache-2.0
#include "support/failing_malloc.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdlib>

// What the C library calls its own functions, whose names this program takes.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace {

constexpr std::int64_t kOff = -1;
thread_local constinit std::int64_t t_left = kOff;  // allocations that still succeed before one fails

bool fails_now() noexcept {
  if (t_left == kOff || t_left-- > 0) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

// Visible to the libraries, whatever the program is compiled with: Clang hides also what C's headers declare.
extern "C" {
[[gnu::visibility("default")]] void* malloc(std::size_t size) noexcept {
  return fails_now() ? nullptr : __libc_malloc(size);
}

[[gnu::visibility("default")]] void* calloc(std::size_t count, std::size_t size) noexcept {
  return fails_now() ? nullptr : __libc_calloc(count, size);
}

[[gnu::visibility("default")]] void* realloc(void* memory, std::size_t size) noexcept {
  return fails_now() ? nullptr : __libc_realloc(memory, size);
}

[[gnu::visibility("default")]] void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return fails_now() ? nullptr : __libc_memalign(alignment, size);
}

// Of this program only: c-blosc 1.21 crashes when it fails.
[[gnu::visibility("hidden")]] int posix_memalign(void** memory, std::size_t alignment,
                                                 std::size_t size) noexcept {
  if (fails_now()) return ENOMEM;
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}

namespace h5feed::test {

FailingMalloc::FailingMalloc(std::int64_t number) noexcept { t_left = number; }

FailingMalloc::~FailingMalloc() { end(); }

bool FailingMalloc::end() noexcept {
  const bool failed = t_left == kOff;
  t_left = kOff;
  return failed;
}

}  // namespace h5feed::test
