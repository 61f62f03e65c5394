// SPDX-License-Identifier: Apache-2.0
// The figures that loaders of the watched processes publish (H5FEED_STATS_FILE).
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/monitor/record.hpp"

namespace h5feed::cli {

/// Follows a file to which loaders append lines of JSON: `Verdict::to_json()` of the running epoch, about
/// each second and at its end, with "time" (seconds since 1970), "pid" and "loader". For one thread.
class LoaderLines {
 public:
  /// Follows `path` from its present end, or from its beginning if it does not exist yet. `started_s` is the
  /// begin of the record in seconds since 1970.
  LoaderLines(std::filesystem::path path, double started_s);

  /// Takes the lines that were added since the last call, and sets the members of `point` that concern
  /// loaders: those of the running epochs, and of epochs that ended since the last call. Ignores lines that
  /// it does not understand.
  void read(Point& point);

  /// Returns the epochs seen so far, in the order of their begin; the oldest are dropped beyond 10,000.
  const std::vector<LoaderEpoch>& epochs() const noexcept { return epochs_; }

 private:
  struct Progress {
    LoaderEpoch epoch;
    double seconds = 0, waited_s = 0, waited_for_read_s = 0, samples = 0;  // totals of the epoch
    double last_s = 0;                                                     // time of the last line
    double wait = 0, wait_read = 0, samples_per_s = 0;                     // between the last two lines
    bool counts = false;                                                   // is part of the next point
  };

  void take(const std::string& line);
  void keep(const LoaderEpoch& epoch);

  const std::filesystem::path path_;
  const double started_s_;
  std::streamoff place_ = 0;
  std::map<std::pair<std::int64_t, std::int64_t>, Progress> loaders_;  // by process and loader
  std::vector<LoaderEpoch> epochs_;
};

}  // namespace h5feed::cli
