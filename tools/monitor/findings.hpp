// SPDX-License-Identifier: Apache-2.0
// Faults that the record of a run shows, and what to try against them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/monitor/record.hpp"
#include "tools/monitor/series.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {

/// A fault that a record shows.
struct Finding {
  std::string name;                  ///< Fixed name for programs: "starved_gpu"
  std::string what;                  ///< One sentence without a full stop, with the figures
  std::vector<std::string> advice;   ///< What to try, one clause each, the most promising first
  double from_s = 0, to_s = 0;       ///< When, in seconds since the record began
  std::optional<unsigned> gpu = {};  ///< NVML's index, if it concerns one GPU
};

/// A record prepared for the search for faults. Borrows the record, which must outlive it.
class Judged {
 public:
  explicit Judged(const Record& record);

  const Record& record;
  /// The points from the first to the last in which a GPU worked; all points if none did, or none is known.
  std::vector<const Point*> points;
  /// Mean use of all GPUs at `points`; empty if no GPU is watched, or the driver does not tell its use.
  Values busy;
  double typical = 0;    ///< Upper quartile of `busy`
  double mean_busy = 0;  ///< Mean use of all GPUs over the whole record

  bool has_gpus() const noexcept { return !busy.empty(); }
  double begin_s() const { return points.front()->time_s; }
  double end_s() const { return points.back()->time_s; }
  /// Returns the values of a quantity at the points where it is known.
  Values of(std::optional<double> Point::*value) const;
  /// Returns whether no GPU did much work at point `i`: less than three tenths of the typical use.
  bool all_idle(std::size_t i) const;
  /// Returns the epochs of the loader that delivered for the longest time, in order.
  std::vector<LoaderEpoch> training_epochs() const;
};

/// Each of these returns the fault that it is named after, or nothing. `judged.points` has at least
/// `kFewestPoints` points.
std::optional<Finding> throttling(const Judged& judged);
std::optional<Finding> silent_gpu(const Judged& judged);
std::optional<Finding> device_memory_rises(const Judged& judged);
std::optional<Finding> host_memory_rises(const Judged& judged);
std::optional<Finding> storage_at_limit(const Judged& judged);
std::optional<Finding> validation_gaps(const Judged& judged);
std::optional<Finding> periodic_idling(const Judged& judged);
std::optional<Finding> starved_gpu(const Judged& judged);
std::optional<Finding> fall_of_use(const Judged& judged);
std::optional<Finding> low_average(const Judged& judged);

/// Fewest points that a record is judged by.
inline constexpr std::size_t kFewestPoints = 10;

/// Verdict and findings of a record.
struct Diagnosis {
  bool judged = true;             ///< The record is long enough to be judged
  std::string verdict;            ///< One line without a line break
  std::vector<Finding> findings;  ///< Causes before effects

  /// Returns the diagnosis as JSON: {"verdict", "findings": [{"finding", "what", "try", "from_s", "to_s",
  /// "gpu"}]}.
  Json to_json() const;
  /// Returns the diagnosis as lines for people, each ended by a newline.
  std::string to_text() const;
};

/// Judges a record.
Diagnosis diagnose(const Record& record);

/// Formats a time of a record: "95 s", "12.5 min", "3.2 h".
std::string time_text(double seconds);

}  // namespace h5feed::cli
