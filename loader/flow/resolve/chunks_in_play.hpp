// SPDX-License-Identifier: Apache-2.0
// How many chunks an order needs at a time, and thus how large the cache has to be.
#pragma once

#include <cstdint>

#include "dataset/dataset_state.hpp"
#include "flow/resolve/advice.hpp"
#include "h5feed/data_loader.hpp"

namespace h5feed {

/// Groups of chunks that an epoch needs: all chunks that hold the same samples count as one group. A rank or
/// a subset takes only some of a chunk's samples. A tile is stored in only some of the chunks of its image:
/// for tiles each chunk counts as a group, and each part of a tile as one of its samples.
struct ChunkGroups {
  std::uint64_t count;
  std::uint64_t rows;       ///< Samples of a group; the average if an epoch takes parts of them
  std::uint64_t last_rows;  ///< Samples of the last group, at most `rows`
  std::uint64_t bytes;
  std::uint64_t side_by_side = 1;  ///< Chunks needed for consecutive samples
  double parts = 1;                ///< Mean number of chunks a sample is stored in

  ChunkGroups(const Field& data, const ResolvedOptions& options);
  explicit ChunkGroups(const ChunkPattern& pattern);

  /// Returns the samples of all groups.
  std::uint64_t samples() const noexcept { return (count - 1) * rows + last_rows; }
};

/// Returns how many chunks sequential order touches until the window has passed over a row: those between its
/// first and last offset, and, as LRU keeps the rows behind the window as long as the others, those of its
/// largest gap once more.
std::uint64_t chunks_along_window(const FieldWindow& window, std::uint64_t rows_per_chunk);

/// Returns the number of chunks that consecutive samples come from; a window of `chunk:K` has K times
/// `pieces` chunks.
std::uint64_t chunks_in_play(const ChunkGroups& groups, const Shuffle& shuffle, std::uint64_t pieces = 1);

/// Returns the number of chunks that consecutive samples of the data come from; windows of K count images
/// with tiles, and groups in episodes.
std::uint64_t chunks_in_play(const ChunkGroups& groups, const DatasetState& dataset, const Shuffle& shuffle);

/// Returns the bytes of the chunks that consecutive samples and batches in preparation come from: of the
/// data, and of the fields that are cut into tiles or have rows of episodes like it.
std::uint64_t bytes_in_play(const DatasetState& dataset, const ChunkGroups& groups,
                            const ResolvedOptions& options, const Shuffle& shuffle);

}  // namespace h5feed
