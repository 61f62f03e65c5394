// SPDX-License-Identifier: Apache-2.0
// Statistics of recorded series.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace h5feed::cli {

using Values = std::vector<double>;

/// Returns the mean; 0 if empty.
double mean_of(std::span<const double> values) noexcept;
/// Returns the value below which the share `at`, 0 … 1, of all values lies; 0 if empty.
double quantile(Values values, double at);
/// Returns Welch's t of the means of two samples, positive if that of `b` is larger; 0 if either has fewer
/// than two values. Equal values within both samples count as a spread of a millionth of their size.
double welch_t(std::span<const double> a, std::span<const double> b) noexcept;
/// Returns Pearson's correlation of two series of equal length, −1 … 1; 0 if one of them is constant.
double correlation(std::span<const double> a, std::span<const double> b) noexcept;

/// A stretch of a series, from `begin` to before `end`.
struct Span {
  std::size_t begin = 0, end = 0;

  std::size_t size() const noexcept { return end - begin; }
};

/// Returns the stretches of indices below `size` for which `is` holds, in order.
template <typename Predicate>
std::vector<Span> stretches_where(std::size_t size, Predicate is) {
  std::vector<Span> found;
  for (std::size_t i = 0; i < size; ++i) {
    if (!is(i)) continue;
    if (found.empty() || found.back().end != i) found.push_back({i, i});
    found.back().end = i + 1;
  }
  return found;
}

/// Returns the index at which a series falls most clearly to a lower level: the split with the largest
/// Welch's t, with at least `least` values on either side. 0 if there are too few values, or it nowhere
/// falls.
std::size_t clearest_fall(std::span<const double> values, std::size_t least);

}  // namespace h5feed::cli
