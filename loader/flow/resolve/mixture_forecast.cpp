// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/mixture_forecast.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "flow/resolve/advice.hpp"
#include "plan/divide.hpp"
#include "plan/mixing.hpp"
#include "plan/mixture.hpp"

namespace h5feed {
namespace {

// One set during an epoch.
struct SetInPlay {
  std::uint64_t size;      // samples of the set
  std::uint64_t chunks;    // chunks of the set
  std::uint64_t draws;     // samples that the epoch draws
  std::uint64_t rows;      // samples per chunk
  std::uint64_t drawn;     // chunks that the epoch draws from
  std::uint64_t together;  // chunks that consecutive samples of the set come from
  double share;            // of the positions
  Shuffle order;

  double passes() const noexcept { return static_cast<double>(draws) / static_cast<double>(size); }
};

std::vector<SetInPlay> sets_in_play(const Mixture& mixture, const Shuffle& shuffle) {
  std::vector<SetInPlay> sets;
  const std::vector<std::uint64_t> draws = mixture.draws();
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const MixtureSet& set = mixture.sets()[i];
    SetInPlay own{.size = set.size(),
                  .chunks = mixture.chunks()[i],
                  .draws = draws[i],
                  .rows = std::max<std::uint64_t>(1, set.size() / mixture.chunks()[i]),
                  .drawn = 0,
                  .together = 1,
                  .share = static_cast<double>(set.quota) / static_cast<double>(kMixtureBlock),
                  .order = set.shuffle.value_or(shuffle)};
    const bool full = own.order.kind() == Shuffle::Kind::full;
    own.drawn = std::min(own.chunks, full ? own.draws : ceil_div(own.draws, own.rows));
    if (full) own.together = own.chunks;
    if (own.order.kind() == Shuffle::Kind::chunk)
      own.together = std::min(own.chunks, own.order.window_chunks());
    sets.push_back(own);
  }
  return sets;
}

std::uint64_t bytes_of_chunk(const DatasetState& dataset) {
  return dataset.data.reader->chunk_bytes() * dataset.data.map.pieces();
}

}  // namespace

std::uint64_t mixture_chunks_drawn(const Mixture& mixture, const Shuffle& shuffle) {
  std::uint64_t chunks = 0;
  for (const SetInPlay& set : sets_in_play(mixture, shuffle)) chunks += set.drawn;
  return chunks;
}

std::uint64_t mixture_bytes_in_play(const DatasetState& dataset, const Shuffle& shuffle) {
  std::uint64_t chunks = 0;
  // While a set goes on to its next window, the chunks of the other sets have to stay.
  std::uint64_t next_window = 0;
  for (const SetInPlay& set : sets_in_play(*dataset.mixture, shuffle)) {
    chunks += set.together;
    if (set.together < set.chunks) next_window = std::max(next_window, set.together);
  }
  if (dataset.mixture->sets().size() > 1) chunks += next_window;
  return chunks * bytes_of_chunk(dataset);
}

std::vector<MixedSetPlan> forecast_sets(const DatasetState& dataset, const ResolvedOptions& options,
                                        std::uint64_t cache_bytes) {
  const std::uint64_t chunk_bytes = bytes_of_chunk(dataset);
  const double held =
      static_cast<double>(cache_bytes) / static_cast<double>(mixture_bytes_in_play(dataset, options.shuffle));
  const auto ranks = static_cast<std::uint64_t>(options.world_size);
  std::vector<MixedSetPlan> plans;
  for (const SetInPlay& set : sets_in_play(*dataset.mixture, options.shuffle)) {
    const double batch = static_cast<double>(options.batch_size) * set.share;
    // The cache is divided among the sets by the chunks that they need at a time. In a pass over the set, a
    // rank takes its part of the samples of each chunk.
    const ChunkPattern pattern{
        .chunks = std::max<std::uint64_t>(1, set.drawn),
        .rows_per_chunk = std::max<std::uint64_t>(
            1, std::min(set.size, set.draws) / std::max<std::uint64_t>(1, set.drawn) / ranks),
        .chunk_bytes = chunk_bytes,
        .shuffle = set.order,
        .batch_size = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(batch))),
        .cache_bytes = static_cast<std::uint64_t>(held * static_cast<double>(set.together * chunk_bytes))};
    double decodes = lru_decodes_per_chunk(pattern);
    // A further pass finds the chunks of a set that stays in the cache.
    const bool stays = held >= 1 && set.together == set.chunks;
    if (!stays) decodes *= std::max(1.0, set.passes());
    plans.push_back({.share = set.share,
                     .samples = static_cast<std::int64_t>(set.draws),
                     .size = static_cast<std::int64_t>(set.size),
                     .chunks = set.drawn,
                     .decodes_per_chunk = decodes});
  }
  return plans;
}

double mixture_decodes_per_chunk(const DatasetState& dataset, const ResolvedOptions& options,
                                 std::uint64_t cache_bytes) {
  double decodes = 0;
  double chunks = 0;
  for (const MixedSetPlan& set : forecast_sets(dataset, options, cache_bytes)) {
    decodes += set.decodes_per_chunk.value_or(0) * static_cast<double>(set.chunks);
    chunks += static_cast<double>(set.chunks);
  }
  return decodes / chunks;
}

double mixture_mixing(const Mixture& mixture, std::uint64_t batch_size, const Shuffle& shuffle) {
  double same = 0;           // probability that two samples of a batch come from the same chunk
  double same_shuffled = 0;  // the same for full shuffles
  for (const SetInPlay& set : sets_in_play(mixture, shuffle)) {
    const double shuffled =
        set.size < 2 ? 1.0 : static_cast<double>(set.rows - 1) / static_cast<double>(set.size - 1);
    const auto batch = static_cast<std::uint64_t>(std::llround(static_cast<double>(batch_size) * set.share));
    const double score = mixing_score(set.size, set.rows, std::max<std::uint64_t>(1, batch), set.order);
    const double pairs = set.share * set.share;  // two samples of a batch are both of this set
    same += pairs * (1 - score * (1 - shuffled));
    same_shuffled += pairs * shuffled;
  }
  return same_shuffled < 1 ? (1 - same) / (1 - same_shuffled) : 1.0;
}

std::string mixture_line(const Mixture& mixture) {
  constexpr std::size_t kListed = 8;
  std::vector<std::string> texts;
  for (const SetInPlay& set : sets_in_play(mixture, {})) {
    if (texts.size() == kListed) break;
    texts.push_back(
        fmt::format("set {} {:.1f} %, {:.2f} passes", texts.size(), set.share * 100, set.passes()));
  }
  if (mixture.sets().size() > kListed)
    texts.push_back(fmt::format("and {} more sets", mixture.sets().size() - kListed));
  return fmt::format("mixture, per epoch: {}", fmt::join(texts, "; "));
}

}  // namespace h5feed
