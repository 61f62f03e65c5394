// `bench --peer pytorch`: the same file through PyTorch's DataLoader and h5py, in turn with h5feed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench_settings.hpp"
#include "tools/output.hpp"

namespace h5feed::cli {

/// What the peers get where the user does not say: the settings usual in practice.
inline constexpr const char* kPeerBatchSize = "512";
inline constexpr const char* kPeerWorkers = "4";
inline constexpr const char* kPeerTimeBudget = "12s";

/// A comparison.
struct PeerRequest {
  BenchSettings settings;
  std::vector<std::int64_t> loader_workers;  ///< a row of h5feed for each, at least one
  std::vector<std::int64_t> peer_workers;    ///< two rows of the peer for each: per sample and tuned
  bool cold = false;   ///< the file's pages are dropped before each repetition of either
  std::string python;  ///< empty: python3 of PATH, then Debian's
};

/// Repetitions of each row.
struct PeerRounds {
  std::uint64_t all = 1;
  std::uint64_t counted = 1;  ///< the last ones; those before warm up
};

/// As many as --warmup and --runs ask for, unless starting Python for each, which takes `start`, would take
/// more than twice the row's time and more than 5 s: then fewer, at least one, and warm-ups are left out
/// first.
PeerRounds peer_rounds(const BenchSettings& settings, std::chrono::duration<double> start);

/// Measures all rows in rounds, each repetition in a process of its own, h5feed's and the peer's in turn;
/// prints and exports medians and what h5feed's best row is of the peer's best. Blocks. Throws Error
/// where Python or its packages are missing, with the line that installs them, OptionError for settings
/// the peer has no counterpart of, and as Dataset::open; returns the exit code.
int bench_against_pytorch(const PeerRequest& request, const OutputOptions& output);

}  // namespace h5feed::cli
