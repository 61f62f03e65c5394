// How long a check takes: measured on a few chunks before it starts, and again while it runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "store/h5_file.hpp"
#include "tools/check_dataset.hpp"
#include "tools/check_report.hpp"

namespace h5feed::cli {

/// Finds what one of many equal pieces of work costs from a few rounds of growing size. What is paid once,
/// such as opening a file, is left out: the first round does not count, and a later one only where it is the
/// largest.
class PieceTimer {
 public:
  /// Of `pieces` in all; rounds grow until one takes `ample_s`.
  PieceTimer(std::uint64_t pieces, double ample_s)
      : pieces_(pieces), ample_s_(ample_s), next_(pieces > 0 ? 1 : 0) {}

  /// Pieces that the next round is to do; 0 when enough is known.
  std::uint64_t next() const noexcept { return next_; }
  void add(double seconds) noexcept;
  /// Of one piece; 0 before the first round.
  double seconds_each() const noexcept { return seconds_each_; }

 private:
  static constexpr std::uint64_t kGrowth = 8;

  std::uint64_t pieces_;
  double ample_s_;
  std::uint64_t next_;
  std::uint64_t rounds_ = 0;
  double seconds_each_ = 0;
};

/// Seconds that each entry takes, in their order; a guess from the others for small ones and for those that
/// the time did not suffice for. Checks some chunks of each large dataset, spread over it, so that chunks
/// that were never written count by their share. Blocks for about `limit`, longer where a single chunk takes
/// longer. Throws Interrupted.
std::vector<double> estimate_check(const std::shared_ptr<H5File>& file,
                                   const std::vector<CheckEntry>& entries, const CheckSettings& settings,
                                   std::chrono::nanoseconds limit);

/// Notices that work will take much longer, or much shorter, than was said. For one thread.
class TimeForecast {
 public:
  explicit TimeForecast(double said_s) : said_s_(said_s) {}

  /// After `elapsed_s` the share `done` of the work is done, 0 … 1. Returns what all of it will take, in
  /// seconds, where that is worth saying: after 5 s at least, and where it is more than twice or less than
  /// half of what was said last.
  std::optional<double> revise(double done, double elapsed_s) noexcept;

 private:
  double said_s_;
};

}  // namespace h5feed::cli
