// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/dataset_fingerprint.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

#include "plan/permutation.hpp"
#include "plan/streams.hpp"

namespace h5feed {
namespace {

// Adds numbers of `value_bytes`, a power of two, as little-endian bytes: a state may be resumed on a host
// with the other byte order.
void add_values(std::uint64_t& hash, std::span<const std::byte> bytes, std::size_t value_bytes) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  hash = mix_key(hash, kPlanHash, bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += kWord) {
    const std::size_t count = std::min(kWord, bytes.size() - at);
    std::uint64_t word = 0;
    if constexpr (std::endian::native == std::endian::little) {
      std::memcpy(&word, bytes.data() + at, count);
    } else {
      for (std::size_t i = 0; i < count; ++i)
        word |= std::to_integer<std::uint64_t>(bytes[(at + i) ^ (value_bytes - 1)]) << (8 * i);
    }
    hash = mix_key(hash, kPlanHash, word);
  }
}

template <typename Values>
void add_values(std::uint64_t& hash, const Values& values) {
  add_values(hash, std::as_bytes(std::span(values)), sizeof(values[0]));
}

void add_field(std::uint64_t& hash, const Field& field) {
  const DatasetInfo& info = field.info();
  add_values(hash, info.path);
  hash = mix_key(hash, kPlanHash, static_cast<std::uint64_t>(info.dtype));
  for (const std::uint64_t extent : info.shape) hash = mix_key(hash, kPlanHash, extent);
}

void add_tiling(std::uint64_t& hash, const Tiling& tiling) {
  const Tiling::Rule& rule = tiling.rule();
  for (std::size_t axis = rule.volumes ? 0 : 1; axis < kTileAxes; ++axis) {
    hash = mix_key(hash, kPlanHash, rule.stride[axis]);
    hash = mix_key(hash, kPlanHash, rule.edges == TileEdges::shift ? 1 : 0);
  }
  if (rule.drawn > 0) hash = mix_key(hash, kPlanHash, rule.drawn);
  if (rule.turns != TileTurns::none) hash = mix_key(hash, kPlanHash, static_cast<std::uint64_t>(rule.turns));
  // The number of tiles of a grid tells their extent.
  if (tiling.runs().size() == 1 && rule.drawn == 0) return;
  for (const TileRun& run : tiling.runs()) {
    hash = mix_key(hash, kPlanHash, run.first_tile);
    for (const TileAxis& axis : run.axes) hash = mix_key(hash, kPlanHash, axis.extent);
  }
}

void add_episodes(std::uint64_t& hash, const DatasetState& dataset) {
  const EpisodeOptions& options = *dataset.options.episodes;
  for (const std::int64_t value : {static_cast<std::int64_t>(options.anchors), options.missing_before,
                                   options.missing_after, static_cast<std::int64_t>(options.fill)})
    hash = mix_key(hash, kPlanHash, static_cast<std::uint64_t>(value));
  for (std::size_t number = 0; number < dataset.num_fields(); ++number) {
    const Field* const field = dataset.field(number);
    if (field == nullptr || !field->belonging.timed()) continue;
    hash = mix_key(hash, kPlanHash, number);
    for (const std::int64_t offset : field->belonging.window().offsets)
      hash = mix_key(hash, kPlanHash, static_cast<std::uint64_t>(offset));
  }
  const Anchors& anchors = *dataset.episodes->anchors;
  for (std::uint64_t number = 0; number < anchors.num_episodes(); ++number) {
    hash = mix_key(hash, kPlanHash, anchors.episode(number).first_row);
    hash = mix_key(hash, kPlanHash, anchors.episode(number).rows);
  }
}

}  // namespace

std::uint64_t dataset_fingerprint(const DatasetState& dataset) {
  std::uint64_t hash = 0;
  add_field(hash, dataset.data);
  if (dataset.tiling) {
    add_tiling(hash, *dataset.tiling);
    const TileOptions& tiles = *dataset.options.tiles;
    if (tiles.foreground > 0 || tiles.min_foreground > 0) {
      add_values(hash, tiles.labels);
      hash = mix_key(hash, kPlanHash, std::bit_cast<std::uint64_t>(tiles.foreground));
      hash = mix_key(hash, kPlanHash, std::bit_cast<std::uint64_t>(tiles.min_foreground));
    }
  }
  if (dataset.episodes) add_episodes(hash, dataset);
  for (const std::int64_t channel : dataset.options.channels)
    hash = mix_key(hash, kPlanHash, static_cast<std::uint64_t>(channel));
  if (dataset.sparse) {
    hash = mix_key(hash, kPlanHash, dataset.sparse->reader->num_values());
    hash = mix_key(hash, kPlanHash, dataset.sparse->reader->columns());
    hash = mix_key(hash, kPlanHash, static_cast<std::uint64_t>(dataset.sparse->format));
    add_values(hash, dataset.sparse->places);
  }
  if (dataset.target) {
    add_field(hash, *dataset.target);
    if (dataset.target->is_resident())
      add_values(hash, dataset.target->resident.span(), size_of(dataset.target->info().dtype));
  }
  // The samples of a set need not be told apart by the fields of the whole mixture, whose names are those of
  // the first set.
  for (const MixedSet& set : dataset.mixed)
    hash = mix_key(hash, kPlanHash, dataset_fingerprint(*DatasetAccess::state(set.dataset)));
  return hash;
}

}  // namespace h5feed
