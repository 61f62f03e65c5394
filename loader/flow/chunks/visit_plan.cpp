// SPDX-License-Identifier: Apache-2.0
#include "flow/chunks/visit_plan.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace h5feed {
namespace {

// Ragged samples are read one by one: a task takes a few of them.
constexpr std::size_t kRaggedVisitRows = 32;

/// The rows of a batch that are stored in one chunk (its first chunk, if samples span several).
struct ChunkRows {
  std::uint64_t chunk = 0;
  std::uint32_t first_row = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t first_position = 0;
};

// Groups `rows`, which are in file order, by chunk. The groups are in the order in which the batch needs
// them: if a batch spans two windows of chunks, the chunks of the old window are visited before those of the
// new one push them out of a cache that holds just one window.
std::vector<ChunkRows> rows_by_chunk(const std::vector<RowAt>& rows, const SampleMap& map) {
  std::vector<ChunkRows> groups;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    const std::uint64_t chunk = map.chunk_of(rows[i].row, 0);
    if (groups.empty() || groups.back().chunk != chunk) groups.push_back({chunk, i, 0, rows[i].position});
    ++groups.back().num_rows;
    groups.back().first_position = std::min(groups.back().first_position, rows[i].position);
  }
  std::ranges::sort(groups, {}, &ChunkRows::first_position);
  return groups;
}

}  // namespace

void plan_chunks(BatchJob& job, std::size_t lane_number, const SampleMap& map) {
  const std::vector<RowAt>& rows = job.rows[lane_number];
  for (const ChunkRows& group : rows_by_chunk(rows, map)) {
    for (std::uint32_t piece = 0; piece < map.pieces(); ++piece) {
      job.visits.push_back({.field = static_cast<std::uint32_t>(lane_number),
                            .piece = piece,
                            .chunk = group.chunk + piece,
                            .first_row = group.first_row,
                            .num_rows = group.num_rows});
    }
  }
}

void plan_tiles(BatchJob& job, std::size_t lane_number, const SampleMap& map) {
  const std::vector<RowAt> tiles = std::move(job.rows[lane_number]);
  std::vector<RowAt>& listed = job.rows[lane_number];
  listed.clear();
  std::vector<std::uint64_t> pieces;
  for (const ChunkRows& group : rows_by_chunk(tiles, map)) {
    std::vector<std::pair<std::uint64_t, std::uint32_t>> parts;  // piece, index in `tiles`
    for (std::uint32_t i = group.first_row; i < group.first_row + group.num_rows; ++i) {
      pieces.clear();
      map.append_pieces(tiles[i].row, job.key(), pieces);
      for (const std::uint64_t piece : pieces) parts.emplace_back(piece, i);
    }
    std::ranges::sort(parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::uint64_t piece = parts[i].first;
      if (i == 0 || piece != parts[i - 1].first) {
        job.visits.push_back({.field = static_cast<std::uint32_t>(lane_number),
                              .piece = static_cast<std::uint32_t>(piece),
                              .chunk = group.chunk + piece,
                              .first_row = static_cast<std::uint32_t>(listed.size())});
      }
      ++job.visits.back().num_rows;
      listed.push_back(tiles[parts[i].second]);
    }
  }
}

void plan_ragged(BatchJob& job, std::size_t lane_number) {
  const std::size_t samples = job.batch.indices.size();
  for (std::size_t first = 0; first < samples; first += kRaggedVisitRows) {
    job.visits.push_back({.field = static_cast<std::uint32_t>(lane_number),
                          .first_row = static_cast<std::uint32_t>(first),
                          .num_rows = static_cast<std::uint32_t>(std::min(kRaggedVisitRows, samples - first)),
                          .direct = true});
  }
}

}  // namespace h5feed
