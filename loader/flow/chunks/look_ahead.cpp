// SPDX-License-Identifier: Apache-2.0
#include "flow/chunks/look_ahead.hpp"

namespace h5feed {

std::uint64_t look_ahead_room(const DatasetState& dataset, const ResolvedOptions& options,
                              std::int64_t num_workers, std::uint64_t prefetch_batches) {
  if (num_workers == 0 || options.row_reads) return 0;
  if (dataset.episodes) return 0;          // the order knows groups of chunks only
  if (dataset.data.map.drawn()) return 0;  // most chunks of an image would be loaded in vain
  if (options.cache_policy == CachePolicy::keep_first) return 0;  // chunks loaded ahead would not stay
  const std::uint64_t chunk_bytes = dataset.data.reader->chunk_bytes() * dataset.data.map.pieces();
  const std::uint64_t held = options.cache_bytes / chunk_bytes;
  std::uint64_t in_play = 0;
  std::uint64_t wanted = 0;
  switch (options.shuffle.kind()) {
    case Shuffle::Kind::full:
      return 0;
    case Shuffle::Kind::sequential:
      in_play = prefetch_batches * static_cast<std::uint64_t>(options.batch_size) *
                    (options.shard == Shard::strided ? static_cast<std::uint64_t>(options.world_size) : 1) /
                    dataset.data.map.typical_rows_per_chunk() +
                2;
      wanted = 2 * static_cast<std::uint64_t>(num_workers);
      break;
    case Shuffle::Kind::chunk:
      // The end of one window and the whole next one.
      in_play = 2 * options.shuffle.window_chunks();
      wanted = options.shuffle.window_chunks();
      break;
  }
  return held > in_play ? std::min(wanted, held - in_play) : 0;
}

}  // namespace h5feed
