// `bench --world-size`: several processes that share one file's samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench_settings.hpp"
#include "tools/output.hpp"

namespace h5feed::cli {

struct RanksRequest {
  BenchSettings settings;
  std::vector<std::int64_t> world_sizes;  ///< a row for each, at least one
  std::vector<std::int64_t> num_workers;  ///< of each process; rows for each, at least one
  std::string shard;
};

/// Measures each row in as many processes at once as its world size; prints and exports their rates together,
/// what they are of the first world size's (speed-up, and per process: efficiency), and bytes read per stored
/// byte. Blocks. Throws OptionError, and as Dataset::open; returns the exit code.
int bench_world_sizes(const RanksRequest& request, const OutputOptions& output);

}  // namespace h5feed::cli
