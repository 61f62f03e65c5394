// SPDX-License-Identifier: Apache-2.0
// Joins the readings of GPUs, machine, process and loaders to the points of a record.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cuda/nvml/nvml.hpp"
#include "tools/monitor/loader_lines.hpp"
#include "tools/monitor/machine_use.hpp"
#include "tools/monitor/record.hpp"

namespace h5feed::cli {

/// Where a recorder looks.
struct RecorderSources {
  std::vector<GpuFacts> gpus = {};
  std::filesystem::path stats_file = {};  ///< `H5FEED_STATS_FILE` of the watched processes; empty: none
  std::filesystem::path root = "/";       ///< Replaces "/" in the paths below /proc and /sys, for tests
};

/// Makes the record of a run. It holds at most 20,000 points; beyond that neighbours are joined. For one
/// thread.
class Recorder {
 public:
  /// `started_s`: begin of the record in seconds since 1970. `start_ns`: the same on the monotonic clock.
  Recorder(RecorderSources sources, double interval_s, double started_s, std::uint64_t start_ns);

  /// Takes a reading of one of the GPUs, by its index in `RecorderSources::gpus`. It stays in force until the
  /// next one.
  void add(std::size_t gpu, const gpu::GpuReading& reading);
  /// Returns whether each GPU has had a reading.
  bool ready() const;
  /// Adds a point with the GPUs' last readings and new readings of machine and loaders. The caller sets time
  /// and the members of the process in `point`. Returns the point.
  Point close(Point point);

  /// Takes what loaders published since the last point.
  void finish();

  /// Returns the record so far.
  const Record& record() const noexcept { return record_; }

 private:
  Record record_;
  std::vector<std::optional<GpuPoint>> last_;  // by GPU
  MachineUse machine_;
  std::optional<LoaderLines> loaders_;
};

}  // namespace h5feed::cli
