// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/ratio_test.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "tools/measure/statistics.hpp"

namespace h5feed::cli {
namespace {

constexpr std::size_t kMostPairs = 500;

// Returns twice the rank of each value by its magnitude, so that ranks shared by equal values are whole.
std::vector<std::size_t> doubled_ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::abs(values[i]); });
  std::vector<std::size_t> ranks(values.size());
  for (std::size_t from = 0; from < order.size();) {
    std::size_t to = from + 1;
    while (to < order.size() && std::abs(values[order[to]]) == std::abs(values[order[from]])) ++to;
    for (std::size_t i = from; i < to; ++i) ranks[order[i]] = from + 1 + to;
    from = to;
  }
  return ranks;
}

// Returns the distribution of the sum of those ranks whose sign is positive, if all signs are equally likely:
// the probability of each sum from 0 on.
std::vector<double> sum_distribution(const std::vector<std::size_t>& ranks) {
  std::vector<double> probability(std::accumulate(ranks.begin(), ranks.end(), std::size_t{0}) + 1);
  probability[0] = 1;
  std::size_t largest = 0;
  for (const std::size_t rank : ranks) {
    largest += rank;
    for (std::size_t sum = largest; sum >= rank; --sum)
      probability[sum] = (probability[sum] + probability[sum - rank]) / 2;
    for (std::size_t sum = 0; sum < rank; ++sum) probability[sum] /= 2;
  }
  return probability;
}

// Quantile 0.975 of Student's distribution by its degrees of freedom, from 1 on.
double student_quantile(double degrees) {
  constexpr std::array<double, 30> kQuantiles = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                                 2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                                 2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                                 2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
  if (degrees >= 31) return 1.96 + 2.4 / degrees;  // within 0.001 of the exact value
  return kQuantiles[static_cast<std::size_t>(std::clamp(std::floor(degrees), 1.0, 30.0)) - 1];
}

struct LogMoments {
  double mean = 0;
  double variance_of_mean = 0;
};

LogMoments log_moments(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  LogMoments moments;
  for (const double value : values) moments.mean += std::log(value) / count;
  for (const double value : values)
    moments.variance_of_mean += std::pow(std::log(value) - moments.mean, 2) / (count - 1) / count;
  return moments;
}

}  // namespace

RatioEstimate paired_ratio(const std::vector<double>& first, const std::vector<double>& second,
                           double alpha) {
  std::vector<double> logs;
  for (std::size_t i = 0; i < std::min({first.size(), second.size(), kMostPairs}); ++i)
    logs.push_back(std::log(second[i] / first[i]));
  RatioEstimate estimate{.count = logs.size()};
  if (logs.empty()) return estimate;

  std::vector<double> averages;  // of all pairs of logarithms, each with itself as well (Walsh)
  for (std::size_t i = 0; i < logs.size(); ++i) {
    for (std::size_t k = i; k < logs.size(); ++k) averages.push_back((logs[i] + logs[k]) / 2);
  }
  std::ranges::sort(averages);
  estimate.ratio = std::exp(median(averages));

  // Without equal values the doubled ranks are 2, 4, 6 …
  std::vector<std::size_t> plain(logs.size());
  for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = 2 * (i + 1);
  const std::vector<double> null_sums = sum_distribution(plain);
  double tail = null_sums[0];
  std::size_t outside = 0;  // averages beyond each end of the interval
  while (tail <= alpha / 2 && 2 * outside + 1 < averages.size()) tail += null_sums[2 * ++outside];
  if (outside > 0) {
    estimate.low = std::exp(averages[outside - 1]);
    estimate.high = std::exp(averages[averages.size() - outside]);
  }

  std::erase(logs, 0.0);
  const std::vector<std::size_t> ranks = doubled_ranks(logs);
  std::size_t positive = 0;
  for (std::size_t i = 0; i < logs.size(); ++i) positive += logs[i] > 0 ? ranks[i] : 0;
  const std::vector<double> sums = sum_distribution(ranks);
  const std::size_t extreme = std::min(positive, sums.size() - 1 - positive);
  double at_most = 0;
  for (std::size_t sum = 0; sum <= extreme; ++sum) at_most += sums[sum];
  estimate.p = std::min(1.0, 2 * at_most);
  return estimate;
}

RatioEstimate unpaired_ratio(const std::vector<double>& first, const std::vector<double>& second) {
  RatioEstimate estimate{.count = std::min(first.size(), second.size())};
  if (first.empty() || second.empty()) return estimate;
  const LogMoments old = log_moments(first), fresh = log_moments(second);
  estimate.ratio = std::exp(fresh.mean - old.mean);
  if (estimate.count < 2) return estimate;
  const double variance = old.variance_of_mean + fresh.variance_of_mean;
  double degrees = 1e9;
  if (variance > 0) {
    degrees = variance * variance /
              (std::pow(old.variance_of_mean, 2) / static_cast<double>(first.size() - 1) +
               std::pow(fresh.variance_of_mean, 2) / static_cast<double>(second.size() - 1));
  }
  const double half = student_quantile(degrees) * std::sqrt(variance);
  estimate.low = std::exp(fresh.mean - old.mean - half);
  estimate.high = std::exp(fresh.mean - old.mean + half);
  return estimate;
}

}  // namespace h5feed::cli
