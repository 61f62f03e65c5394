// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/chunks_in_play.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "flow/resolve/mixture_forecast.hpp"
#include "flow/resolve/tuning_bounds.hpp"
#include "plan/divide.hpp"

namespace h5feed {
namespace {

// Returns the mean number of chunks that the rows of a window are in.
double chunks_per_window(const Field& field) {
  return h5feed::chunks_per_window(field.belonging.window().offsets,
                                   static_cast<double>(field.map.typical_rows_per_chunk()));
}

// Returns the tiles that `SampleMap::chunks_side_by_side` is about: of an image at random places, else of a
// row, or in volumes a layer, of a grid; the fewest if images differ.
std::uint64_t tiles_side_by_side(const SampleMap& map) {
  if (map.drawn()) return map.typical_rows_per_chunk();
  std::uint64_t fewest = std::numeric_limits<std::uint64_t>::max();
  for (const TileRun& run : map.tiling()->runs()) {
    const std::uint64_t rows = map.tiling()->rule().volumes ? run.axes[1].count : 1;
    fewest = std::min(fewest, rows * run.axes[2].count);
  }
  return fewest;
}

// Samples that need at most `chunks` chunks together: those of a window of `chunk:K`, or consecutive ones.
struct PlayRun {
  std::uint64_t samples = 1;
  std::uint64_t chunks = 1;
};

// Returns how many chunks of a field batches in preparation need, while those before them are not done: their
// chunks do not leave the cache before others push them out. `parts` is the mean number of chunks of a
// sample.
std::uint64_t chunks_ahead(std::uint64_t samples, double parts, const PlayRun& run) {
  const auto apart = static_cast<std::uint64_t>(std::ceil(static_cast<double>(samples) * parts));
  return std::min(apart, ceil_div(samples, run.samples) * run.chunks);
}

// Returns the samples of a window of `chunk:K`. `all` come in `units` that the order permutes.
std::uint64_t samples_of_window(const Shuffle& shuffle, std::uint64_t all, std::uint64_t units) {
  return std::max<std::uint64_t>(1, shuffle.window_chunks() * all / std::max<std::uint64_t>(1, units));
}

// Returns the chunks of a field with rows of episodes that samples in play and in preparation come from;
// `in_play` are those of samples in play alone.
std::uint64_t chunks_in_episodes(const Field& field, const DatasetState& dataset, const Shuffle& shuffle,
                                 std::uint64_t samples, std::uint64_t in_play) {
  const double parts = chunks_per_window(field);
  PlayRun run{.samples = field.map.typical_rows_per_chunk(), .chunks = 1};
  if (shuffle.kind() == Shuffle::Kind::chunk) {
    const auto groups = dataset.sample_layout().num_chunks();
    run = {samples_of_window(shuffle, dataset.num_samples(), groups), in_play};
  } else if (dataset.episodes->anchors->drawn()) {
    run = {1, static_cast<std::uint64_t>(std::ceil(parts))};
  }
  return std::min(field.map.rows().num_chunks(), in_play + chunks_ahead(samples, parts, run));
}

// Returns the chunks of a field of rows that the samples in play in episodes come from.
std::uint64_t chunks_in_play(const Field& field, const DatasetState& dataset, const Shuffle& shuffle) {
  const std::uint64_t all = field.map.rows().num_chunks();
  const std::uint64_t height = field.map.rows().rows_per_chunk();
  const FieldWindow& window = field.belonging.window();
  switch (shuffle.kind()) {
    case Shuffle::Kind::full:
      return all;
    case Shuffle::Kind::sequential:
      return std::min(all, chunks_along_window(window, field.map.typical_rows_per_chunk()));
    case Shuffle::Kind::chunk:
      break;
  }
  const std::uint64_t rows = dataset.episodes->groups.rows + window.before() + window.after();
  return std::min(all, shuffle.window_chunks() * (ceil_div(rows, height) + 1));
}

// Returns the chunks of data or a field that is cut into tiles which samples in play and in preparation come
// from; `in_play` are those of samples in play alone.
std::uint64_t chunks_of_tiles(const SampleMap& map, const Shuffle& shuffle, std::uint64_t samples,
                              std::uint64_t in_play) {
  const PlayRun run =
      shuffle.kind() == Shuffle::Kind::chunk
          ? PlayRun{samples_of_window(shuffle, map.rows().num_rows(), map.rows().num_chunks()), in_play}
          : PlayRun{tiles_side_by_side(map), map.chunks_side_by_side()};
  return std::min(map.rows().num_chunks() * map.most_pieces_in_use(),
                  in_play + chunks_ahead(samples, map.chunks_per_sample(), run));
}

// Returns the chunks of a field that is cut into tiles which samples in play come from. Windows count chunks
// of the data, `groups_of_data` together; those of the field may hold more or fewer images.
std::uint64_t chunks_in_play(const SampleMap& map, std::uint64_t groups_of_data, const Shuffle& shuffle) {
  if (shuffle.kind() == Shuffle::Kind::sequential) return map.chunks_side_by_side();
  const std::uint64_t all = map.rows().num_chunks();
  const double per_group = static_cast<double>(all) / static_cast<double>(groups_of_data);
  const bool windows = shuffle.kind() == Shuffle::Kind::chunk;
  const double wanted = windows ? std::ceil(static_cast<double>(shuffle.window_chunks()) * per_group)
                                : static_cast<double>(all);
  return std::min(all, static_cast<std::uint64_t>(wanted) + (per_group == 1 ? 0 : 1)) *
         map.most_pieces_in_use();
}

}  // namespace

std::uint64_t chunks_along_window(const FieldWindow& window, std::uint64_t rows_per_chunk) {
  std::uint64_t gap = 0;
  for (std::size_t i = 1; i < window.offsets.size(); ++i)
    gap = std::max(gap, static_cast<std::uint64_t>(window.offsets[i] - window.offsets[i - 1]));
  const std::uint64_t rows = window.before() + window.after() + gap + 1;
  return ceil_div(rows, rows_per_chunk) + 1;
}

ChunkGroups::ChunkGroups(const Field& data, const ResolvedOptions& options)
    : count(options.chunks_per_epoch),
      rows(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(options.samples_per_epoch) / count)),
      last_rows(rows),
      bytes(data.reader->chunk_bytes() * data.map.pieces()) {
  const auto samples = static_cast<std::uint64_t>(options.samples_per_epoch);
  const RowLayout& layout = data.map.rows();
  if (data.map.tiled()) {
    count = std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(std::llround(static_cast<double>(count) * data.map.pieces_in_use())));
    parts = data.map.chunks_per_sample();
    bytes = data.reader->chunk_bytes();
    side_by_side = data.map.chunks_side_by_side();
  } else if (data.belonging.around_anchors()) {
    parts = chunks_per_window(data);
    side_by_side =
        std::min(count, chunks_along_window(data.belonging.window(), data.map.typical_rows_per_chunk()));
  } else if (layout.regular() && samples == layout.num_rows() && count == layout.num_chunks()) {
    rows = std::min(samples, layout.rows_per_chunk());
    last_rows = samples - (count - 1) * rows;
    return;
  } else {
    return;
  }
  rows = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::llround(static_cast<double>(options.samples_per_epoch) * parts /
                                                 static_cast<double>(count))));
  last_rows = rows;
}

ChunkGroups::ChunkGroups(const ChunkPattern& pattern)
    : count(pattern.chunks), rows(pattern.rows_per_chunk), last_rows(rows), bytes(pattern.chunk_bytes) {}

std::uint64_t chunks_in_play(const ChunkGroups& groups, const Shuffle& shuffle, std::uint64_t pieces) {
  switch (shuffle.kind()) {
    case Shuffle::Kind::sequential:
      return groups.side_by_side;
    case Shuffle::Kind::full:
      return groups.count;
    case Shuffle::Kind::chunk:
      break;
  }
  return std::min(shuffle.window_chunks() * pieces, groups.count);
}

std::uint64_t chunks_in_play(const ChunkGroups& groups, const DatasetState& dataset, const Shuffle& shuffle) {
  const SampleMap& map = dataset.data.map;
  const std::uint64_t unit = dataset.episodes ? dataset.episodes->groups.chunks
                             : map.tiled()    ? map.most_pieces_in_use()
                                              : 1;
  return chunks_in_play(groups, shuffle, unit);
}

std::uint64_t bytes_in_play(const DatasetState& dataset, const ChunkGroups& groups,
                            const ResolvedOptions& options, const Shuffle& shuffle) {
  if (dataset.mixture) return mixture_bytes_in_play(dataset, shuffle);
  const auto batch = static_cast<std::uint64_t>(options.batch_size);
  const std::uint64_t ahead = usual_prefetch(options) * batch;
  const std::uint64_t tiles_ahead = ahead > 0 ? ahead + batch : 0;
  const SampleMap& map = dataset.data.map;
  std::uint64_t chunks = chunks_in_play(groups, dataset, shuffle);
  if (dataset.episodes) {
    chunks = chunks_in_episodes(dataset.data, dataset, shuffle, ahead + batch, chunks);
  } else if (map.tiled()) {
    chunks = chunks_of_tiles(map, shuffle, tiles_ahead, chunks);
  }
  std::uint64_t bytes = std::min(chunks, groups.count) * groups.bytes;
  for (std::size_t number = kTarget; number < dataset.num_fields(); ++number) {
    const Field* const field = dataset.field(number);
    if (field == nullptr) continue;
    if (dataset.episodes && !field->is_resident() && field->belonging.per() == FieldUnit::row) {
      bytes += chunks_in_episodes(*field, dataset, shuffle, ahead + batch,
                                  chunks_in_play(*field, dataset, shuffle)) *
               field->reader->chunk_bytes() * field->map.pieces();
    } else if (field->map.tiled()) {
      const std::uint64_t in_play = chunks_in_play(field->map, map.rows().num_chunks(), shuffle);
      bytes += chunks_of_tiles(field->map, shuffle, tiles_ahead, in_play) * field->reader->chunk_bytes();
    }
  }
  return bytes;
}

}  // namespace h5feed
