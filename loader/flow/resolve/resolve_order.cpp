// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/resolve_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/byte_units.hpp"
#include "base/option_spelling.hpp"
#include "flow/resolve/host_share.hpp"
#include "flow/resolve/mixture_forecast.hpp"
#include "h5feed/error.hpp"
#include "plan/divide.hpp"
#include "plan/group_order.hpp"
#include "plan/listed_order.hpp"

namespace h5feed {
namespace {

void check_batch(const DataLoaderOptions& options) {
  if (options.batch_size && *options.batch_size < 1) {
    throw OptionError(fmt::format("{} must be at least 1, or none for single samples; got {}",
                                  spelled("batch_size"), *options.batch_size));
  }
  if (options.batch_size && *options.batch_size > std::int64_t{1} << 31) {
    throw OptionError(
        fmt::format("{} must be at most 2147483648; got {}", spelled("batch_size"), *options.batch_size));
  }
  if (!options.batch_size && options.drop_last) {
    throw OptionError("drop_last needs batches; set batch_size, or leave drop_last unset");
  }
}

void check_samplers(const DataLoaderOptions& options) {
  const bool shuffled = options.shuffle.kind() != Shuffle::Kind::sequential;
  if (options.sampler && shuffled) {
    throw OptionError("sampler option is mutually exclusive with shuffle; leave shuffle unset");
  }
  if (!options.batch_sampler) return;
  if (options.batch_size != 1 || shuffled || options.sampler || options.drop_last) {
    throw OptionError(
        "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last; leave "
        "these unset");
  }
  if (options.shard != Shard::strided) {
    throw OptionError("batch_sampler distributes whole batches over the ranks; leave shard at strided");
  }
}

void check_ranks(const DataLoaderOptions& options) {
  if (options.world_size < 1 || options.world_size > kMaxWorldSize) {
    throw OptionError(
        fmt::format("{} must be 1 to {}; got {}", spelled("world_size"), kMaxWorldSize, options.world_size));
  }
  if (options.rank < 0 || options.rank >= options.world_size) {
    throw OptionError(
        fmt::format("rank must be 0 to world_size - 1 = {}; got {}", options.world_size - 1, options.rank));
  }
  if (options.world_size > 1 && !options.seed) {
    throw OptionError(fmt::format(
        "seed must be set with world_size {}: every rank needs the same one; use e.g. options.seed = 1",
        options.world_size));
  }
}

// Returns the number of units that the order permutes: chunks, or groups of them in episodes.
std::uint64_t units_of_all_ranks(const DatasetState& dataset, const SampleSubset* chosen) {
  const RowLayout& layout = dataset.sample_layout();
  return chosen == nullptr ? layout.num_chunks() : chunk_groups(layout, chosen).size();
}

// Positions of rows in a batch are numbers of 32 bits.
constexpr std::uint64_t kMostRowsOfBatch = std::uint64_t{1} << 31;

// Returns how many chunks of the data a unit of the order has, without those that it shares with others.
double chunks_per_unit(const DatasetState& dataset) {
  if (!dataset.episodes) return 1;
  const AnchorGroups& groups = dataset.episodes->groups;
  return static_cast<double>(groups.chunks_in_use) / static_cast<double>(groups.samples.num_chunks());
}

std::int64_t largest_batch(const BatchSampler& sampler) {
  const std::int64_t largest = sampler.max_batch_size();
  if (largest < 1 || largest > std::int64_t{1} << 31) {
    throw OptionError(
        fmt::format("max_batch_size() of the batch sampler must be 1 to 2147483648; it is {}", largest));
  }
  return largest;
}

// Returns whether the start of an epoch follows the file: ascending, and leaving out at most half of the
// samples.
bool follows_the_file(const EpochSamples& epoch) {
  constexpr std::int64_t kBeginning = 4096;
  const std::int64_t end = std::min(epoch.size(), kBeginning);
  for (std::int64_t i = 1; i < end; ++i) {
    if (epoch.at(i) < epoch.at(i - 1)) return false;
  }
  return end > 0 && epoch.at(end - 1) - epoch.at(0) <= 2 * end;
}

// Counts the samples and chunks that one rank delivers in an epoch. `units`: what the order permutes, each
// with `chunks_per_unit` chunks. Takes a sampler's size, and whether it follows the file, from its first
// epoch.
void count_share(const DataLoaderOptions& options, std::uint64_t samples, std::uint64_t units,
                 double chunks_per_unit, std::uint64_t rows_per_sample, ResolvedOptions& resolved) {
  const auto ranks = static_cast<std::uint64_t>(resolved.world_size);
  if (options.sampler) {
    const auto epoch = epoch_of(*options.sampler, resolved.seed, 0);
    samples = static_cast<std::uint64_t>(epoch->size());
    if (follows_the_file(*epoch)) resolved.shuffle = Shuffle(false);
  }
  if (options.batch_sampler) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    const auto rows = static_cast<std::uint64_t>(resolved.max_batch_rows);
    samples = std::min(epoch_of(*options.batch_sampler, resolved.seed, 0)->size(), kMost / rows) * rows;
  }
  const std::uint64_t own_samples = std::max<std::uint64_t>(1, ceil_div(samples, ranks));
  resolved.samples_per_epoch = static_cast<std::int64_t>(own_samples);
  const auto chunks_in = [&](std::uint64_t count) {
    return static_cast<std::uint64_t>(std::llround(std::ceil(static_cast<double>(count) * chunks_per_unit)));
  };
  resolved.chunks_of_all_ranks = chunks_in(units);
  // A contiguous shard covers few chunks only if the order goes chunk by chunk.
  const bool run_of_chunks =
      options.shard == Shard::contiguous && resolved.shuffle.kind() != Shuffle::Kind::full && ranks > 1;
  std::uint64_t own = units;
  if (options.shard == Shard::by_chunk) own = ceil_div(units, ranks);
  if (run_of_chunks) own = std::min(units, ceil_div(units, ranks) + 1);
  resolved.chunks_per_epoch = std::min(chunks_in(own), own_samples * rows_per_sample);
}

void check_mixture(const DataLoaderOptions& options, const Mixture& mixture) {
  if (options.sampler || options.batch_sampler) {
    throw OptionError(
        fmt::format("a mixture has an order of its own; leave {} unset, and give weights to mix()",
                    options.sampler ? "sampler" : "batch_sampler"));
  }
  if (options.shard == Shard::by_chunk) {
    throw OptionError("shard = by_chunk would change the shares of a mixture; use strided or contiguous");
  }
  if (options.shuffle.kind() != Shuffle::Kind::chunk) return;
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < mixture.sets().size(); ++i) {
    if (!mixture.sets()[i].shuffle) most = std::max(most, mixture.chunks()[i]);
  }
  if (options.shuffle.window_chunks() <= most) return;
  throw OptionError(
      most == 0
          ? fmt::format("{} \"{}\": all sets of the mixture have their own shuffle; leave it unset",
                        spelled("shuffle"), options.shuffle.to_string())
          : fmt::format("{} \"{}\": the largest set of the mixture has {} {}; use \"chunk:{}\" or less, "
                        "or \"full\"",
                        spelled("shuffle"), options.shuffle.to_string(), format_count(most),
                        most == 1 ? "chunk" : "chunks", most));
}

void check_chunks(const DataLoaderOptions& options, const DatasetState& dataset, const SampleSubset* chosen) {
  const bool windows = options.shuffle.kind() == Shuffle::Kind::chunk;
  const bool by_chunk = options.shard == Shard::by_chunk;
  if (by_chunk && options.sampler) {
    throw OptionError("shard = by_chunk has an order of its own in every chunk; use strided with a sampler");
  }
  if (!windows && !by_chunk) return;
  const std::uint64_t chunks = units_of_all_ranks(dataset, chosen);
  if (windows && options.shuffle.window_chunks() > chunks) {
    const bool by_image = dataset.tiling && dataset.tiling->num_images() == chunks;
    const char* const unit = dataset.episodes ? "group" : by_image ? "image" : "chunk";
    throw OptionError(fmt::format("{} \"{}\": the data has {} {}{}{}; use \"chunk:{}\"{} or \"full\"",
                                  spelled("shuffle"), options.shuffle.to_string(), format_count(chunks), unit,
                                  chunks == 1 ? "" : "s",
                                  dataset.episodes ? " of chunks, large enough for the windows"
                                  : by_image       ? ", whose chunks count as one"
                                                   : "",
                                  chunks, chunks > 1 ? " or less," : ""));
  }
  if (by_chunk && static_cast<std::uint64_t>(options.world_size) > chunks) {
    throw OptionError(fmt::format(
        "shard = by_chunk cannot distribute {} {} over {} ranks; use strided, or at most {} ranks",
        format_count(chunks), chunks == 1 ? "chunk" : "chunks", options.world_size, chunks));
  }
}

}  // namespace

ResolvedOptions resolve_order(const DataLoaderOptions& options, const DatasetState& dataset,
                              const SampleSubset* chosen) {
  ResolvedOptions resolved;
  check_batch(options);
  check_samplers(options);
  check_ranks(options);
  if (dataset.mixture) {
    check_mixture(options, *dataset.mixture);
  } else {
    check_chunks(options, dataset, chosen);
  }
  const bool as_given = !dataset.mixture && chosen != nullptr && !chosen->ascending() &&
                        options.shard != Shard::by_chunk &&
                        options.shuffle.kind() == Shuffle::Kind::sequential;
  resolved.sampled = options.sampler != nullptr || options.batch_sampler != nullptr || as_given;
  // A custom order counts as a full shuffle, unless its sampler follows the file.
  resolved.shuffle = resolved.sampled ? Shuffle(true) : options.shuffle;
  resolved.batch_size =
      options.batch_sampler ? largest_batch(*options.batch_sampler) : options.batch_size.value_or(1);
  resolved.batched = options.batch_size.has_value();
  const std::uint64_t samples = dataset.mixture     ? dataset.mixture->size()
                                : chosen == nullptr ? dataset.num_samples()
                                                    : chosen->size();
  if (!resolved.batched && options.uneven == Uneven::exact && options.world_size > 1) {
    throw OptionError(
        "with single samples (batch_size none) ranks with fewer samples would have nothing to deliver; use "
        "uneven = pad or drop, or set batch_size");
  }
  resolved.max_batch_rows = resolved.batch_size;
  // A sampler may repeat samples, so its batches can be larger than the dataset.
  if (!options.sampler && !options.batch_sampler)
    resolved.max_batch_rows = std::min(resolved.max_batch_rows, static_cast<std::int64_t>(samples));
  resolved.seed = options.seed.value_or(0);
  resolved.rank = options.rank;
  resolved.world_size = options.world_size;
  resolved.shard = options.shard;
  resolved.uneven = options.uneven;
  std::uint64_t most_rows = 1;
  for (std::size_t number = 0; number < dataset.num_fields(); ++number) {
    if (const Field* const field = dataset.field(number))
      most_rows = std::max<std::uint64_t>(most_rows, field->belonging.per_sample());
  }
  if (static_cast<std::uint64_t>(resolved.max_batch_rows) > kMostRowsOfBatch / most_rows) {
    throw OptionError(fmt::format("{} {} of windows with {} rows: a batch holds {} rows at most; use {}",
                                  spelled("batch_size"), resolved.batch_size, most_rows,
                                  format_count(kMostRowsOfBatch), kMostRowsOfBatch / most_rows));
  }
  count_share(options, samples, units_of_all_ranks(dataset, chosen), chunks_per_unit(dataset),
              dataset.data.belonging.per_sample(), resolved);
  if (dataset.mixture) {
    resolved.chunks_per_epoch =
        std::min(resolved.chunks_per_epoch, mixture_chunks_drawn(*dataset.mixture, options.shuffle));
  }
  return resolved;
}

PlanSpec make_plan_spec(const OrderSources& sources, const DatasetState& dataset,
                        const ResolvedOptions& options) {
  PlanSpec spec;
  spec.num_samples = dataset.num_samples();
  spec.layout = dataset.sample_layout();
  if (!options.sampled) spec.shuffle = options.shuffle;
  spec.seed = options.seed;
  spec.batch_size = static_cast<std::uint64_t>(options.batch_size);
  spec.drop_last = options.drop_last;
  spec.rank = static_cast<std::uint64_t>(options.rank);
  spec.world_size = static_cast<std::uint64_t>(options.world_size);
  spec.shard = options.shard;
  spec.uneven = options.uneven;
  spec.subset = sources.chosen;
  spec.sampler = sources.sampler;
  spec.batch_sampler = sources.batch_sampler;
  spec.mixture = dataset.mixture;
  return spec;
}

}  // namespace h5feed
