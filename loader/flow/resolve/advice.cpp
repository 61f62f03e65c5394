// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/byte_units.hpp"
#include "base/unit_range.hpp"
#include "batch/normalize.hpp"
#include "flow/resolve/cache_layout.hpp"
#include "flow/resolve/chunks_in_play.hpp"
#include "flow/resolve/mixture_forecast.hpp"
#include "plan/divide.hpp"
#include "plan/mixing.hpp"

namespace h5feed {
namespace {

constexpr std::uint64_t kSuggestedWindowChunks = 16;

// Returns how often the groups of `chunk:K` decode the average chunk: those that windows reach in other
// groups are decoded for both.
double decodes_of_groups(const DatasetState& dataset, const Shuffle& shuffle) {
  if (!dataset.episodes || shuffle.kind() != Shuffle::Kind::chunk) return 1;
  const AnchorGroups& groups = dataset.episodes->groups;
  return static_cast<double>(groups.chunk_visits) / static_cast<double>(groups.chunks_in_use);
}

// How often an order visits a chunk in play, batch by batch, on average, and the fraction of visits that an
// LRU cache for `held` chunks serves.
struct Visits {
  double per_epoch = 0;
  double found = 0;

  Visits(const ChunkGroups& groups, double in_play, double batch, double held) {
    // A batch draws its rows from those of the chunks in play, and visits each chunk it has a row of once. A
    // visit finds the chunk if LRU still holds it; on average, half of the chunks this batch visits are newer
    // and occupy room without being visited again.
    const auto count = static_cast<double>(groups.count), rows = static_cast<double>(groups.rows);
    const double drawn_from = std::min(static_cast<double>(groups.samples()), in_play * rows);
    const auto visits_of = [&](double chunk_rows) {
      return drawn_from / batch * (1 - std::pow(1 - chunk_rows / drawn_from, batch));
    };
    per_epoch = (visits_of(rows) * (count - 1) + visits_of(static_cast<double>(groups.last_rows))) / count;
    const double touched = 1 - std::pow(1 - 1 / in_play, batch);
    found = std::max(0.0, held - touched * in_play / 2) / in_play;
  }

  double decodes() const { return std::max(1.0, per_epoch * (1 - found)); }
};

// Returns how often a chunk is decoded that no cache holds, if no other is in play and one batch is prepared
// at a time: for the first batch with rows of it, and for each batch that begins within it.
double decodes_between_batches(const ChunkGroups& groups, std::uint64_t batch) {
  const std::uint64_t samples = groups.samples();
  const std::uint64_t begun = ceil_div(samples, batch) - 1;  // All but the first batch
  // Batches begin with chunks at the common multiples of both sizes.
  const std::uint64_t chunks_until_common = batch / std::gcd(groups.rows, batch);
  const std::uint64_t with_chunks = (groups.count - 1) / chunks_until_common;
  return 1 + static_cast<double>(begun - with_chunks) / static_cast<double>(groups.count);
}

double decodes_with_lru(const ChunkGroups& groups, std::uint64_t in_play, double batch, double held) {
  const auto chunks = static_cast<double>(in_play);
  return held >= chunks ? 1.0 : Visits(groups, chunks, batch, held).decodes();
}

std::string times(double decodes) { return fmt::format("{:.{}f}", decodes, decodes < 9.95 ? 1 : 0); }

// Returns `options` with another cache policy.
ResolvedOptions with_policy(ResolvedOptions options, CachePolicy policy) {
  options.cache_policy = policy;
  return options;
}

double mixing_of(const DatasetState& dataset, const ResolvedOptions& options, const Shuffle& shuffle) {
  const std::uint64_t together =
      options.shard == Shard::strided ? static_cast<std::uint64_t>(options.world_size) : 1;
  const std::uint64_t batch = static_cast<std::uint64_t>(options.batch_size) * together;
  if (dataset.mixture) return mixture_mixing(*dataset.mixture, batch, shuffle);
  const std::uint64_t unit = dataset.episodes
                                 ? ceil_div(dataset.num_samples(), dataset.sample_layout().num_chunks())
                                 : dataset.data.map.typical_rows_per_chunk();
  return mixing_score(dataset.num_samples(), unit, batch, shuffle);
}

bool within_unit_range(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return value >= 0 && value <= 1; });
}

// Returns whether the parameters change values and are meant for values in 0 … 1.
bool expects_unit_range(const NormalizeParameters& normalize) {
  const bool shifts = std::ranges::any_of(normalize.mean, [](double mean) { return mean != 0; });
  const bool stretches = std::ranges::any_of(normalize.std, [](double std) { return std != 1; });
  return (shifts || stretches) && within_unit_range(normalize.mean) && within_unit_range(normalize.std);
}

std::string unscaled_line(const DatasetInfo& info, const NormalizeParameters& normalize,
                          std::string_view setting, std::string_view cure) {
  if (!is_integer(info.dtype) || normalize.scale != 1 || !expects_unit_range(normalize)) return {};
  const std::optional<double> scale = unit_scale(info.dtype);
  return fmt::format(
      "{}: mean {:.6g} and std {:.6g} are for values in 0 … 1, but {}:{} is {} and is not scaled; {}{}",
      setting, normalize.mean.front(), normalize.std.front(), info.file, short_path(info.path),
      name_of(info.dtype), scale ? cure : "set normalize.scale",
      scale ? fmt::format("normalize.scale = 1.0 / {:.0f}", 1 / *scale) : std::string());
}

// Another policy is mentioned if its decodes are below this fraction of the current policy's.
constexpr double kWorthSaying = 0.8;

}  // namespace

bool rows_are_foreseeable(const DatasetState& dataset, const ResolvedOptions& options) noexcept {
  return options.world_size == 1 && !options.sampled && !dataset.tiling && !dataset.episodes &&
         !dataset.mixture && !dataset.sparse;
}

RowForecast forecast_rows(const DatasetState& dataset, const ResolvedOptions& options) {
  const bool fits = cached_data_bytes(dataset, options) <= options.cache_bytes;
  const ChunkGroups groups(dataset.data, options);
  const auto samples = static_cast<std::uint64_t>(options.samples_per_epoch);
  const std::uint64_t held = cache_layout(dataset, with_policy(options, CachePolicy::clairvoyant)).samples;
  return forecast_rows({.num_samples = samples,
                        .rows_per_chunk = groups.rows,
                        .batch_size = static_cast<std::uint64_t>(options.batch_size),
                        .shuffle = options.shuffle,
                        .held_share = fits ? 1.0 : static_cast<double>(held) / static_cast<double>(samples),
                        .whole_rows = dataset.data.map.pieces() == 1});
}

double expected_decodes_per_chunk(const DatasetState& dataset, const ResolvedOptions& options) {
  const ChunkGroups groups(dataset.data, options);
  const std::uint64_t in_play = chunks_in_play(groups, dataset, options.shuffle);
  const double chunks = static_cast<double>(in_play);
  const double of_groups = decodes_of_groups(dataset, options.shuffle);
  // A chunk that the cache does not hold serves all batches in preparation when it is decoded; in sequential
  // order they need the same one.
  const bool sequential = options.shuffle.kind() == Shuffle::Kind::sequential;
  const double together =
      sequential ? static_cast<double>(std::max<std::uint64_t>(1, options.prefetch_batches)) : 1;
  const double batch = static_cast<double>(options.batch_size) * together * groups.parts;
  const CacheLayout layout = cache_layout(dataset, options);
  // Masks that are cut like the data take their share of the cache.
  const auto wanted = static_cast<double>(bytes_in_play(dataset, groups, options, options.shuffle));
  const auto chunks_in = [&](std::uint64_t bytes) { return chunks * (static_cast<double>(bytes) / wanted); };
  const auto decodes = [&](double held) {
    if (in_play == 1 && groups.parts == 1 && options.prefetch_batches <= 1 && held < 1)
      return of_groups * decodes_between_batches(groups, static_cast<std::uint64_t>(options.batch_size));
    return of_groups * decodes_with_lru(groups, in_play, batch, held);
  };
  switch (options.cache_policy) {
    case CachePolicy::clairvoyant:
      return forecast_rows(dataset, options).later_epochs;
    case CachePolicy::keep_first: {
      if (dataset.mixture) {
        const double all = static_cast<double>(cached_data_bytes(dataset, options));
        const double stay = std::min(1.0, static_cast<double>(layout.staying_bytes) / all);
        return (1 - stay) *
               mixture_decodes_per_chunk(dataset, options, layout.chunk_bytes - layout.staying_bytes);
      }
      // A chunk stays only whole.
      const auto pieces = static_cast<double>(dataset.data.map.pieces());
      const double staying = std::floor(chunks_in(layout.staying_bytes) * pieces) / pieces;
      const double stay = std::min(1.0, staying / static_cast<double>(groups.count));
      // Only those in play that do not stay need the rest.
      const double rivals = std::max(1.0, chunks * (1 - stay));
      return (1 - stay) * decodes(chunks_in(layout.chunk_bytes - layout.staying_bytes) * chunks / rivals);
    }
    case CachePolicy::lru:
      break;
  }
  if (dataset.mixture) return mixture_decodes_per_chunk(dataset, options, layout.chunk_bytes);
  return decodes(chunks_in(layout.chunk_bytes));
}

double lru_decodes_per_chunk(const ChunkPattern& pattern) {
  const ChunkGroups groups(pattern);
  return decodes_with_lru(groups, chunks_in_play(groups, pattern.shuffle),
                          static_cast<double>(pattern.batch_size),
                          static_cast<double>(pattern.cache_bytes) / static_cast<double>(groups.bytes));
}

double mixing_of(const DatasetState& dataset, const ResolvedOptions& options) {
  return mixing_of(dataset, options, options.shuffle);
}

PlanReport predict_epoch(const DatasetState& dataset, const ResolvedOptions& options, std::uint64_t batches) {
  const ChunkGroups groups(dataset.data, options);
  PlanReport report;
  report.samples = options.samples_per_epoch;
  if (options.drop_last) report.samples = static_cast<std::int64_t>(batches) * options.batch_size;
  report.batches = batches;
  report.chunks = groups.count;
  if (dataset.episodes) {
    const AnchorGroups& anchors = dataset.episodes->groups;
    report.chunks_per_group =
        static_cast<double>(anchors.chunks_in_use) / static_cast<double>(anchors.samples.num_chunks());
  }
  report.cache_bytes_fit = cached_data_bytes(dataset, options);
  const bool foreseeable = rows_are_foreseeable(dataset, options);
  if (!options.row_reads && (foreseeable || options.cache_policy != CachePolicy::clairvoyant)) {
    const bool fits = report.cache_bytes_fit <= options.cache_bytes;
    report.decodes_per_chunk = fits ? 0 : expected_decodes_per_chunk(dataset, options);
  }
  if (!options.row_reads && foreseeable) {
    const RowForecast rows = forecast_rows(dataset, options);
    if (!rows.rough) report.clairvoyant_decodes_per_chunk = rows.later_epochs;
  }
  report.mixing = mixing_of(dataset, options);
  report.echo_factor = options.echo_factor;
  report.mixing_with_echo = report.mixing / static_cast<double>(options.echo_factor);
  report.cache_bytes = options.cache_bytes;
  report.cache_bytes_decode_once = bytes_in_play(dataset, groups, options, options.shuffle);
  if (dataset.mixture) {
    report.sets = forecast_sets(dataset, options, options.cache_bytes);
    for (MixedSetPlan& set : report.sets) {
      if (!report.decodes_per_chunk) set.decodes_per_chunk.reset();
      if (report.decodes_per_chunk == 0) set.decodes_per_chunk = 0;
    }
  }
  return report;
}

std::string normalize_advice(const DatasetState& dataset, const Conversion& conversion) {
  if (conversion.normalize) {
    const std::string line =
        unscaled_line(dataset.data.info(), *conversion.normalize, "normalize",
                      "open the dataset with .unit_range = true (a TorchDataset may set it too), or set ");
    if (!line.empty()) return line;
  }
  for (const NamedField& field : dataset.fields) {
    if (!field.rows || !field.options.normalize) continue;
    const DatasetInfo& info = field.rows->info();
    const NormalizeParameters normalize =
        resolve_normalize(*field.options.normalize, info.dtype, field.rows->geometry.channels);
    const std::string line =
        unscaled_line(info, normalize, fmt::format("normalize of field \"{}\"", field.options.name), "set ");
    if (!line.empty()) return line;
  }
  return {};
}

std::optional<ShuffleCost> shuffle_cost(const DatasetState& dataset, const ResolvedOptions& options) {
  if (options.row_reads) return std::nullopt;
  // Nothing is known about a sampler's next order, nor about how a rank's next share overlaps with this one.
  if (options.cache_policy == CachePolicy::clairvoyant && !rows_are_foreseeable(dataset, options))
    return std::nullopt;
  // The passes of a mixture repeat chunks, which stay if all fit.
  if (cached_data_bytes(dataset, options) <= options.cache_bytes) return std::nullopt;
  ShuffleCost cost{.decodes = expected_decodes_per_chunk(dataset, options)};
  if (cost.decodes < 2) return std::nullopt;
  const ChunkGroups groups(dataset.data, options);
  const std::uint64_t in_play = chunks_in_play(groups, dataset, options.shuffle);
  const bool by_rows = options.cache_policy == CachePolicy::clairvoyant;
  if (!by_rows && rows_are_foreseeable(dataset, options)) {
    const RowForecast rows = forecast_rows(dataset, options);
    if (!rows.rough && rows.later_epochs < cost.decodes * kWorthSaying) cost.clairvoyant = rows.later_epochs;
  }
  const std::uint64_t window_unit = chunks_in_play(groups, dataset, Shuffle("chunk:1"));
  const std::uint64_t held =
      by_rows ? cache_layout(dataset, options).samples / groups.rows
              : options.cache_bytes / bytes_in_play(dataset, groups, options, Shuffle("chunk:1"));
  const std::uint64_t window = std::min(kSuggestedWindowChunks, held);
  const bool sequential = options.shuffle.kind() == Shuffle::Kind::sequential;
  if (window > 0 && window * window_unit < in_play && !options.sampled && !sequential) {
    cost.window_chunks = window;
    cost.window_mixing = mixing_of(dataset, options, Shuffle("chunk:" + std::to_string(window)));
  }
  cost.cache_bytes = bytes_in_play(dataset, groups, options, options.shuffle);
  return cost;
}

std::string shuffle_advice(const DatasetState& dataset, const ResolvedOptions& options) {
  const std::optional<ShuffleCost> cost = shuffle_cost(dataset, options);
  if (!cost) return {};
  std::string line = fmt::format(
      "{} decodes each chunk about {} times with cache {}",
      options.sampled ? "an order that does not follow the chunks" : "shuffle=" + options.shuffle.to_string(),
      times(cost->decodes), format_bytes(options.cache_bytes));
  if (options.cache_policy != CachePolicy::lru) {
    line += fmt::format(" and cache_policy={}", name_of(options.cache_policy));
  }
  if (cost->clairvoyant) line += fmt::format(" (cache_policy=clairvoyant: {})", times(*cost->clairvoyant));
  if (cost->window_chunks > 0)
    line +=
        fmt::format("; shuffle=\"chunk:{}\" once (mixing {:.2f})", cost->window_chunks, cost->window_mixing);
  return line + fmt::format("; cache_bytes={} once", format_bytes_ceil(cost->cache_bytes));
}

}  // namespace h5feed
