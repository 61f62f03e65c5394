// SPDX-License-Identifier: Apache-2.0
// Makes allocations by operator new fail. A test that links failing_new.cpp has its operator new.
#pragma once

#include <cstdint>

namespace h5feed::test {

/// The allocations that fail from now on. Allocations are counted over all threads.
struct FailingNew {
  std::int64_t first = 0;      ///< Number of the first allocation that fails, counted from 0
  bool lasting = false;        ///< Also fail all that follow it
  bool other_threads = false;  ///< Count and fail those of other threads than the caller's only
  bool large_buffers = false;  ///< Count and fail posix_memalign, too
};

/// Makes the allocations of `what` fail until `end_failures`.
void begin_failures(const FailingNew& what) noexcept;

/// Ends the failures; returns whether an allocation failed since `begin_failures`.
bool end_failures() noexcept;

/// Suspends the failures, and the counting, on the calling thread for its own lifetime.
class NoFailures {
 public:
  NoFailures() noexcept;
  NoFailures(const NoFailures&) = delete;
  NoFailures& operator=(const NoFailures&) = delete;
  ~NoFailures();
};

}  // namespace h5feed::test
