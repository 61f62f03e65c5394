// SPDX-License-Identifier: Apache-2.0
// `bench --peer pytorch`: measures PyTorch's DataLoader with h5py and h5feed alternately on the same file.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/settings.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {

/// Defaults for a comparison: settings that are usual in practice.
inline constexpr const char* kPeerBatchSize = "512";
inline constexpr const char* kPeerWorkers = "4";
inline constexpr const char* kPeerTimeBudget = "12s";

/// Arguments of one comparison.
struct PeerRequest {
  BenchSettings settings;
  std::vector<std::int64_t> loader_workers;  ///< one row of h5feed for each; at least one
  std::vector<std::int64_t> peer_workers;    ///< two rows of the peer for each: per sample and tuned
  bool cold = false;                         ///< drop the file's pages before each repetition
  std::string python;                        ///< empty: python3 in PATH, then /usr/bin/python3
};

/// Number of repetitions of each row.
struct PeerRounds {
  std::uint64_t all = 1;
  std::uint64_t counted = 1;  ///< the last ones; all earlier ones are warm-up
};

/// Returns the repetitions that --warmup and --runs ask for. If starting Python for each, at `start` seconds
/// a time, would take more than twice the row's time budget and more than 5 s, returns fewer, at least one;
/// warm-ups are dropped first.
PeerRounds peer_rounds(const BenchSettings& settings, std::chrono::duration<double> start);

/// Measures all rows in rounds, each repetition in its own process, h5feed's and the peer's in turn. Prints
/// and exports medians and the ratio of h5feed's best row to the peer's best. Returns the exit code. Blocks.
/// Throws Error if Python or its packages are missing, with the command that installs them; OptionError for
/// settings that the peer does not support; and the errors of Dataset::open.
int bench_against_pytorch(const PeerRequest& request, const OutputOptions& output);

}  // namespace h5feed::cli
