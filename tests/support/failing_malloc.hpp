// SPDX-License-Identifier: Apache-2.0
// Makes allocations of C libraries fail. A test that links failing_malloc.cpp has its malloc.
#pragma once

#include <cstdint>

namespace h5feed::test {

/// While it lives, one allocation of the thread that made it fails: by malloc, calloc, realloc or
/// aligned_alloc, and so by operator new, and by posix_memalign if the program itself calls it.
class FailingMalloc {
 public:
  /// The allocation with this number fails, counted from 0.
  explicit FailingMalloc(std::int64_t number) noexcept;
  FailingMalloc(const FailingMalloc&) = delete;
  FailingMalloc& operator=(const FailingMalloc&) = delete;
  ~FailingMalloc();

  /// Ends the failures; returns whether the allocation was asked for, and so failed.
  bool end() noexcept;
};

}  // namespace h5feed::test
