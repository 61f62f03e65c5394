// SPDX-License-Identifier: Apache-2.0
// `bench --peer`: measures other loaders of Python and h5feed alternately on the same file.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
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
  std::vector<std::string> peers;            ///< names as `peer_names` gives them; at least one
  std::vector<std::int64_t> loader_workers;  ///< one row of h5feed for each; at least one
  std::vector<std::int64_t> peer_workers;    ///< a row of each way of each peer for each
  bool cold = false;                         ///< drop the file's pages before each repetition
  std::string python;                        ///< empty: python3 in PATH, then /usr/bin/python3
  std::filesystem::path scratch;             ///< folder for the copies that peers need in their own formats
};

/// Parses the text of --peer: names separated by commas. Throws OptionError if one is not known.
std::vector<std::string> parse_peers(const std::string& text);

/// Number of repetitions of each row.
struct PeerRounds {
  std::uint64_t all = 1;
  std::uint64_t counted = 1;  ///< the last ones; all earlier ones are warm-up
};

/// Returns the repetitions that --warmup and --runs ask for. If starting Python for each, at `start` seconds
/// a time, would take more than twice the row's time budget and more than 5 s, returns fewer, at least one;
/// warm-ups are dropped first.
PeerRounds peer_rounds(const BenchSettings& settings, std::chrono::duration<double> start);

/// Measures all rows in rounds, each repetition in its own process, h5feed's and the peers' in turn. Prints
/// and exports medians and the ratio of h5feed's best row to each peer's best. Peers that need the samples in
/// their own format get a copy in a temporary folder first, outside the measured time. Returns the exit code.
/// Blocks. Throws Error if Python or its packages are missing, with the command that installs them;
/// OptionError for settings that the peers do not support; FileError if the copies cannot be written; and the
/// errors of Dataset::open.
int bench_against_peers(const PeerRequest& request, const OutputOptions& output);

}  // namespace h5feed::cli
