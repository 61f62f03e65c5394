// SPDX-License-Identifier: Apache-2.0
#include "tools/monitor/series.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace h5feed::cli {
namespace {

// Mean and spread of a sample whose count, sum and sum of squares are given.
struct Moments {
  double count = 0, sum = 0, squares = 0;

  void add(double value, double weight = 1) noexcept {
    count += weight;
    sum += weight * value;
    squares += weight * value * value;
  }
  double mean() const noexcept { return count > 0 ? sum / count : 0; }
  // Square of the standard error of the mean.
  double error2() const noexcept {
    const double least = 1e-6 * std::max(std::abs(mean()), 1e-6);
    const double variance = (squares - count * mean() * mean()) / (count - 1);
    return std::max(variance, least * least) / count;
  }
};

double welch(const Moments& a, const Moments& b) noexcept {
  if (a.count < 2 || b.count < 2) return 0;
  return (b.mean() - a.mean()) / std::sqrt(a.error2() + b.error2());
}

Moments moments_of(std::span<const double> values) noexcept {
  Moments all;
  for (const double value : values) all.add(value);
  return all;
}

}  // namespace

double mean_of(std::span<const double> values) noexcept { return moments_of(values).mean(); }

double quantile(Values values, double at) {
  if (values.empty()) return 0;
  const auto index = static_cast<std::size_t>(std::llround(at * static_cast<double>(values.size() - 1)));
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(std::min(index, values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

double welch_t(std::span<const double> a, std::span<const double> b) noexcept {
  return welch(moments_of(a), moments_of(b));
}

double correlation(std::span<const double> a, std::span<const double> b) noexcept {
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double both = 0, all_a = 0, all_b = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    both += (a[i] - mean_a) * (b[i] - mean_b);
    all_a += (a[i] - mean_a) * (a[i] - mean_a);
    all_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return all_a > 0 && all_b > 0 ? both / std::sqrt(all_a * all_b) : 0;
}

std::size_t clearest_fall(std::span<const double> values, std::size_t least) {
  if (values.size() < 2 * std::max<std::size_t>(least, 2)) return 0;
  Moments before, after = moments_of(values);
  double lowest = 0;
  std::size_t place = 0;
  for (std::size_t i = 0; i + std::max<std::size_t>(least, 2) <= values.size(); ++i) {
    if (i >= std::max<std::size_t>(least, 2)) {
      const double t = welch(before, after);
      if (t < lowest) lowest = t, place = i;
    }
    before.add(values[i]);
    after.add(values[i], -1);
  }
  return place;
}

}  // namespace h5feed::cli
