// `bench --peer pytorch`: the same file through PyTorch's DataLoader and h5py, in turn with h5feed.
#pragma once

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

/// tools/pytorch_peer.py, so that the installed program is one file.
extern const char* const kPytorchPeerScript;

/// A comparison.
struct PeerRequest {
  BenchSettings settings;
  std::vector<std::int64_t> loader_workers;  ///< a row of h5feed for each, at least one
  std::vector<std::int64_t> peer_workers;    ///< two rows of the peer for each: per sample and tuned
  bool cold = false;   ///< the file's pages are dropped before each repetition of either
  std::string python;  ///< empty: python3 of PATH, then Debian's
};

/// Measures all rows in rounds, each repetition in a process of its own, h5feed's and the peer's in turn;
/// prints and exports medians and what h5feed's best row is of the peer's best. Blocks. Throws Error
/// where Python or its packages are missing, with the line that installs them, OptionError for settings
/// the peer has no counterpart of, and as Dataset::open; returns the exit code.
int bench_against_pytorch(const PeerRequest& request, const OutputOptions& output);

}  // namespace h5feed::cli
