// SPDX-License-Identifier: Apache-2.0
// `bench --world-size`: measures several processes that share one file's samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/settings.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {

/// Arguments of `bench --world-size`.
struct RanksRequest {
  BenchSettings settings;
  std::vector<std::int64_t> world_sizes;  ///< processes per row; at least one entry
  /// Workers of each process; at least one entry, each measured with every world size.
  std::vector<std::int64_t> num_workers;
  std::string shard;
};

/// Measures each row in as many simultaneous processes as its world size. Prints and exports their total
/// rate, speed-up over the first world size, efficiency (speed-up per process), and bytes read per stored
/// byte. Returns the exit code. Blocks. Throws OptionError and the errors of Dataset::open.
int bench_world_sizes(const RanksRequest& request, const OutputOptions& output);

}  // namespace h5feed::cli
