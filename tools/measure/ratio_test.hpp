// SPDX-License-Identifier: Apache-2.0
// Statistics of two series of rates: how they differ, and whether that can be chance.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace h5feed::cli {

/// Ratio of two series of rates.
struct RatioEstimate {
  std::size_t count = 0;  ///< pairs, or values of the smaller series
  double ratio = 1;       ///< second series / first series
  double low = 0;         ///< lower end of the interval; 0 if there are too few values for one
  double high = std::numeric_limits<double>::infinity();  ///< upper end; infinite if there are too few values
  double p = 1;  ///< probability of a difference as large or larger between equal series
};

/// Compares rates that were measured in pairs, `first[i]` next to `second[i]`, all above 0. The ratio is the
/// Hodges–Lehmann estimate of the paired ratios, the interval that of Wilcoxon's signed-rank test with error
/// probability `alpha`, and p its exact two-sided probability (Wilcoxon, Biometrics Bulletin 1(6), 1945;
/// Hodges and Lehmann, Ann. Math. Statist. 34(2), 1963). Robust against single slow repetitions, and against
/// drift that both of a pair share. At most 500 pairs; later ones are ignored.
RatioEstimate paired_ratio(const std::vector<double>& first, const std::vector<double>& second, double alpha);

/// Compares rates of two separate runs, all above 0: the ratio of the geometric means, with a 95 % interval
/// by Welch's t-test of the logarithms. The interval holds the scatter of the repetitions, but not the drift
/// between the runs. p is not computed and stays 1.
RatioEstimate unpaired_ratio(const std::vector<double>& first, const std::vector<double>& second);

}  // namespace h5feed::cli
