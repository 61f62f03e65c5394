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

}  // namespace

double expected_decodes_per_chunk(const DatasetState& dataset, const ResolvedOptions& options) {
  const ChunkGroups groups(dataset.data);
  std::uint64_t in_play = 1;
  if (options.shuffle.kind() == Shuffle::Kind::full) in_play = groups.count;
  if (options.shuffle.kind() == Shuffle::Kind::chunk)
    in_play = std::min(options.shuffle.window_chunks(), groups.count);
  const double cached = std::min(1.0, static_cast<double>(options.cache_bytes) /
                                          (static_cast<double>(in_play) * static_cast<double>(groups.bytes)));
  // A chunk is visited once by every batch that has a row of it; rows are spread over the chunks in play
  // like draws, and a visit finds the chunk cached as often as the cache holds a share of those in play.
  const double batch = static_cast<double>(options.batch_size);
  const double batches_in_play = static_cast<double>(in_play) * static_cast<double>(groups.rows) / batch;
  const double touched = 1 - std::pow(1 - 1 / static_cast<double>(in_play), batch);
  const double visits = std::max(1.0, batches_in_play * touched);
  return std::max(1.0, visits * (1 - cached));
}

std::string shuffle_advice(const DatasetState& dataset, const ResolvedOptions& options) {
  if (options.row_reads || options.shuffle.kind() == Shuffle::Kind::sequential) return {};
  const double decodes = expected_decodes_per_chunk(dataset, options);
  if (decodes < 2) return {};
  const ChunkGroups groups(dataset.data);
  const bool full = options.shuffle.kind() == Shuffle::Kind::full;
  const std::uint64_t in_play = full ? groups.count : std::min(options.shuffle.window_chunks(), groups.count);
  std::string line = fmt::format("shuffle={} decodes each chunk about {:.0f} times with cache {}",
                                 options.shuffle.to_string(), decodes, format_bytes(options.cache_bytes));
  const std::uint64_t window = std::min(kSuggestedWindowChunks, options.cache_bytes / groups.bytes);
  if (window > 0 && window < in_play) line += fmt::format("; shuffle=\"chunk:{}\" once", window);
  // One chunk more than is in play: the next one is loaded before the first can go.
  line += fmt::format("; cache_bytes={} once", format_mib_ceil((in_play + (full ? 0 : 1)) * groups.bytes));
  return line;
}

}  // namespace h5feed
