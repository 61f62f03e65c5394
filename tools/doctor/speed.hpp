// SPDX-License-Identifier: Apache-2.0
// How fast a loader delivers, measured as `bench` does.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "tools/bench/settings.hpp"
#include "tools/program/output.hpp"
#include "tools/program/progress.hpp"

namespace h5feed::cli {

/// A measured row of `bench`.
struct Speed {
  Json row;

  double samples_per_s() const { return row.at("samples_per_s").get<double>(); }
  /// Returns how many samples were skipped or replaced, as they could not be read.
  std::uint64_t samples_done_without() const;
  /// Returns the figures as text: "8,912 samples/s (104 MiB/s of values)".
  std::string text() const;
  /// Returns a sentence if other programs kept the machine busy meanwhile; else an empty string.
  std::string warning() const;
};

/// Measures the settings with `num_workers` in a process of its own, for about `duration`. Empty if the
/// loader failed; the process has printed the error then. Blocks. Throws Error, Interrupted.
std::optional<Speed> measure_speed(BenchSettings settings, std::int64_t num_workers,
                                   std::chrono::nanoseconds duration, Progress& progress);

}  // namespace h5feed::cli
