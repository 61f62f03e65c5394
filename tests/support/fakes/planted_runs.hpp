// SPDX-License-Identifier: Apache-2.0
// Records of runs that never took place: healthy ones, and ones with a planted fault.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tools/monitor/record.hpp"

namespace h5feed::test {

/// A record under construction, and the random numbers it is drawn from.
struct PlantedRun {
  cli::Record record;
  std::mt19937_64 random;
  std::size_t warm = 0;  ///< Number of the first point at which the GPUs work

  double between(double low, double high) { return std::uniform_real_distribution(low, high)(random); }
  std::size_t points() const { return record.points.size(); }
  /// Multiplies the use of all GPUs at a point, and the samples that the loader delivers.
  void scale_use(std::size_t point, double factor);
};

/// Returns a run of one to eight well-fed GPUs of some hundred readings: a start without GPUs, noise, single
/// short pauses at random, a page cache that fills, GPUs that become warm, epochs of a loader or none.
PlantedRun healthy_run(std::uint64_t seed);

/// A fault that can be planted into a healthy run, by the name of its finding.
struct Fault {
  std::string name;
  std::function<void(PlantedRun&)> plant;
};

/// Returns all faults that `monitor` names.
const std::vector<Fault>& faults();

}  // namespace h5feed::test
