// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/exact_sums.hpp"

#include <algorithm>
#include <cmath>

namespace h5feed::cli {
namespace {

// An integer of 192 bits.
struct Wide {
  UInt128 low = 0;
  std::uint64_t high = 0;
};

UInt128 magnitude(Int128 value) {
  return value < 0 ? UInt128{0} - static_cast<UInt128>(value) : static_cast<UInt128>(value);
}

Wide product(std::uint64_t a, UInt128 b) {
  const UInt128 low = static_cast<UInt128>(a) * static_cast<std::uint64_t>(b);
  const UInt128 high = static_cast<UInt128>(a) * static_cast<std::uint64_t>(b >> 64U) + (low >> 64U);
  return {.low = high << 64U | static_cast<std::uint64_t>(low),
          .high = static_cast<std::uint64_t>(high >> 64U)};
}

Wide difference(const Wide& a, const Wide& b) {
  return {.low = a.low - b.low, .high = a.high - b.high - (a.low < b.low ? 1 : 0)};
}

long double rounded(const Wide& value) {
  return std::ldexp(static_cast<long double>(value.high), 128) + static_cast<long double>(value.low);
}

}  // namespace

// Uses the integer next to the mean, so that nothing cancels: with sum = whole · count + rest, the squared
// distances from `whole` add up to exactly squares − whole · (sum + rest). Unless it is 0, `whole` has the
// sign of sum + rest, because |rest| is at most count / 2. For the same reason at least half of the mean
// squared distance remains when that of the mean itself is subtracted.
ExactFigures figures_of(const ExactSums& sums, std::uint64_t count) {
  const auto n = static_cast<Int128>(count);
  Int128 whole = sums.sum / n;
  Int128 rest = sums.sum - whole * n;
  if (magnitude(rest) * 2 > static_cast<UInt128>(n)) {
    const int step = rest < 0 ? -1 : 1;
    whole += step;
    rest -= step * n;
  }
  const Wide around_whole =
      difference({.low = sums.squares, .high = sums.squares_carried},
                 product(static_cast<std::uint64_t>(magnitude(whole)), magnitude(sums.sum + rest)));
  const auto divisor = static_cast<long double>(count);
  const long double offset = static_cast<long double>(rest) / divisor;
  const long double variance = rounded(around_whole) / divisor - offset * offset;
  return {.mean = static_cast<double>(static_cast<long double>(whole) + offset),
          .std = static_cast<double>(std::sqrt(std::max(0.0L, variance)))};
}

}  // namespace h5feed::cli
