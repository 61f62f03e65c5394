// SPDX-License-Identifier: Apache-2.0
// Predicts how long a check takes: from a few chunks before it starts, and from its progress while it runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "tools/check/dataset.hpp"
#include "tools/check/entries.hpp"
#include "tools/check/report.hpp"

namespace h5feed::cli {

/// Estimates the cost of one of many equal pieces of work from a few rounds of growing size. To exclude
/// one-time costs, such as opening a file, the first round is replaced by a second one unless it takes a
/// second or more.
class PieceTimer {
 public:
  /// There are `pieces` in all; rounds grow until one takes `ample_s` seconds.
  PieceTimer(std::uint64_t pieces, double ample_s)
      : pieces_(pieces), ample_s_(ample_s), next_(pieces > 0 ? 1 : 0) {}

  /// Returns the number of pieces for the next round; 0 when enough is known.
  std::uint64_t next() const noexcept { return next_; }
  /// Records that the round of `next()` pieces took `seconds`. If only `done` of them were done, because the
  /// time for it was over, there is no further round, and a round without any counts for nothing.
  void add(double seconds, std::uint64_t done) noexcept;
  /// Seconds per piece; 0 before the first round.
  double seconds_each() const noexcept { return seconds_each_; }

 private:
  static constexpr std::uint64_t kGrowth = 8;

  std::uint64_t pieces_;
  double ample_s_;
  std::uint64_t next_;
  std::uint64_t rounds_ = 0;
  double seconds_each_ = 0;
};

/// Predicted time of a check.
struct CheckEstimate {
  std::vector<double> seconds;  ///< for each entry, in their order
  /// False if there are large datasets, but the time did not suffice to measure any of them: `seconds` then
  /// compares the entries with each other, and its sum may be far too low.
  bool measured = true;
};

/// Predicts the seconds for each entry. Checks some chunks of each dataset of at least 64 MiB or 65,536
/// chunks, spread over it, so that chunks that were never written count by their share. Smaller datasets, and
/// those for which the time did not suffice, are extrapolated from the others. Blocks for about `limit`, or
/// longer if a single chunk takes longer. Throws Interrupted.
CheckEstimate estimate_check(CheckedFiles& files, const std::vector<CheckEntry>& entries,
                             const CheckSettings& settings, std::chrono::nanoseconds limit);

/// Detects that work will take much longer or shorter than predicted. For one thread.
class TimeForecast {
 public:
  /// `said_s` is the predicted time of all work, in seconds.
  explicit TimeForecast(double said_s) : said_s_(said_s) {}

  /// Call when the share `done`, 0 … 1, of the work is done after `elapsed_s` seconds. Returns the new
  /// prediction for all of it, in seconds, if at least 5 s have passed and it is more than twice or less than
  /// half the last prediction.
  std::optional<double> revise(double done, double elapsed_s) noexcept;

 private:
  double said_s_;
};

}  // namespace h5feed::cli
