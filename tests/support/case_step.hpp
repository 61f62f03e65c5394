// SPDX-License-Identifier: Apache-2.0
// How many of many like cases a test tries.
#pragma once

#include <cstdint>

namespace h5feed::test {

/// Distance between the cases that a test tries of a long row of like ones, such as the failing of each call
/// in turn: 1 in release and in tools/scripts/long.sh, 5 under a sanitizer otherwise, where each takes
/// several times as long. As it divides no usual number of options, nested loops meet each of theirs.
#if (defined(H5FEED_ADDRESS_SANITIZER) || defined(H5FEED_THREAD_SANITIZER)) && !defined(H5FEED_LONG_TESTS)
inline constexpr std::uint64_t kCaseStep = 5;
#else
inline constexpr std::uint64_t kCaseStep = 1;
#endif

}  // namespace h5feed::test
