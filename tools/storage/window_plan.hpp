// SPDX-License-Identifier: Apache-2.0
// Chunks for samples that are windows in time: how high they may be for each to be decoded about once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "h5feed/options.hpp"
#include "tools/storage/storage_model.hpp"

namespace h5feed::cli {

/// How windows of a dataset are read.
struct WindowUse {
  std::vector<std::int64_t> window;  ///< Offsets from the anchor, ascending, not empty
  Shuffle shuffle;
  std::uint64_t batch_size = 1;
  std::uint64_t cache_bytes = 0;
};

/// Cost of reading windows from chunks of a given height.
struct WindowCost {
  double decodes_per_chunk = 1;    ///< mean number of decodes per chunk in an epoch
  std::uint64_t needed_bytes = 0;  ///< cache that holds what the order has in play
};

/// Most decodes per chunk that chunks for windows may have.
inline constexpr double kWindowDecodes = 1.2;

/// Parses ascending offsets, such as "-2,-1,0,1". Throws OptionError that names `option`.
std::vector<std::int64_t> parse_window(std::string_view option, std::string_view text);

/// Predicts the decodes of one episode with the rows of `data`, in chunks of `chunk_rows` rows. Groups of
/// `chunk:K` are those of the loader.
WindowCost window_cost(const RowShape& data, std::uint64_t chunk_rows, const WindowUse& use);

/// Returns whether chunks of `chunk_rows` rows are decoded at most `kWindowDecodes` times, in a cache that
/// holds what is in play.
bool fits_windows(const RowShape& data, std::uint64_t chunk_rows, const WindowUse& use);

/// Returns the largest number of rows per chunk, 1, 2 or 5 times a power of ten and at most `most`, that
/// `fits_windows`; empty if there is none.
std::optional<std::uint64_t> window_chunk_rows(const RowShape& data, std::uint64_t most,
                                               const WindowUse& use);

/// Returns what to change where no chunks fit: the order `chunk:K` with the largest K that fits, or the cache
/// that chunks of one row need.
std::string window_cure(const RowShape& data, const WindowUse& use);

}  // namespace h5feed::cli
