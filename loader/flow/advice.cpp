#include "flow/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/byte_units.hpp"

namespace h5feed {
namespace {

constexpr std::uint64_t kSuggestedWindowChunks = 16;

// Chunk rows of the grid: all chunks that hold the same samples count as one.
struct ChunkGroups {
  std::uint64_t count;
  std::uint64_t rows;
  std::uint64_t bytes;

  explicit ChunkGroups(const Field& data)
      : count(data.reader->num_chunks() / data.map.pieces()),
        rows(data.map.rows_per_chunk()),
        bytes(data.reader->chunk_bytes() * data.map.pieces()) {}
};

// Chunks that consecutive samples come from.
std::uint64_t chunks_in_play(const ChunkGroups& groups, const Shuffle& shuffle) {
  switch (shuffle.kind()) {
    case Shuffle::Kind::sequential:
      return 1;
    case Shuffle::Kind::full:
      return groups.count;
    case Shuffle::Kind::chunk:
      break;
  }
  return std::min(shuffle.window_chunks(), groups.count);
}

}  // namespace

double expected_decodes_per_chunk(const DatasetState& dataset, const ResolvedOptions& options) {
  const ChunkGroups groups(dataset.data);
  const std::uint64_t in_play = chunks_in_play(groups, options.shuffle);
  const double chunks = static_cast<double>(in_play);
  const double batch = static_cast<double>(options.batch_size);
  const double held = static_cast<double>(options.cache_bytes) / static_cast<double>(groups.bytes);
  if (held >= chunks) return 1;
  // A batch draws its rows from the chunks in play and visits each chunk it has a row of once. A visit
  // finds the chunk if LRU still holds it; half of what this batch visits, on average, is newer and
  // takes room, but is not visited again.
  const double touched = 1 - std::pow(1 - 1 / chunks, batch);
  const double visits = static_cast<double>(groups.rows) * chunks / batch * touched;
  const double found = std::max(0.0, held - touched * chunks / 2) / chunks;
  return std::max(1.0, visits * (1 - found));
}

std::string shuffle_advice(const DatasetState& dataset, const ResolvedOptions& options) {
  if (options.row_reads || options.shuffle.kind() == Shuffle::Kind::sequential) return {};
  const double decodes = expected_decodes_per_chunk(dataset, options);
  if (decodes < 2) return {};
  const ChunkGroups groups(dataset.data);
  const std::uint64_t in_play = chunks_in_play(groups, options.shuffle);
  std::string line = fmt::format("shuffle={} decodes each chunk about {:.0f} times with cache {}",
                                 options.shuffle.to_string(), decodes, format_bytes(options.cache_bytes));
  const std::uint64_t window = std::min(kSuggestedWindowChunks, options.cache_bytes / groups.bytes);
  if (window > 0 && window < in_play) line += fmt::format("; shuffle=\"chunk:{}\" once", window);
  line += fmt::format("; cache_bytes={} once", format_bytes_ceil(in_play * groups.bytes));
  return line;
}

}  // namespace h5feed
