// SPDX-License-Identifier: Apache-2.0
// Lets each allocation of a piece of work fail in turn.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <new>

#include "support/failing_malloc.hpp"

namespace h5feed::test {

/// Calls `work` again and again, as another allocation of this thread fails each time, until it needs fewer.
/// Expects std::bad_alloc, or no exception and that `check` finds the result right. Returns how many
/// allocations failed.
template <typename Work, typename Check>
std::int64_t expect_result_or_bad_alloc(const Work& work, const Check& check) {
  constexpr std::int64_t kMost = 1000;
  for (std::int64_t number = 0; number < kMost; ++number) {
    SCOPED_TRACE(number);
    std::exception_ptr thrown;
    FailingMalloc failure(number);
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
    const bool failed = failure.end();
    if (thrown) {
      EXPECT_TRUE(failed);
      EXPECT_THROW(std::rethrow_exception(thrown), std::bad_alloc);
    } else {
      EXPECT_TRUE(check());
    }
    if (!failed) return number;
  }
  ADD_FAILURE() << "more than " << kMost << " allocations";
  return kMost;
}

}  // namespace h5feed::test
