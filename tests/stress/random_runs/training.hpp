// SPDX-License-Identifier: Apache-2.0
// Options of a random training: what it delivers, and how it runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "stress/random_runs/draw.hpp"
#include "stress/random_runs/random_data.hpp"

namespace h5feed::test {

/// Options that determine the samples of a training and their values. They stay the same after a resume.
struct Training {
  /// Options of `DataLoaderOptions` that do so; `sampler` and `batch_sampler` without planted exceptions.
  DataLoaderOptions options;
  bool has_sampler = false;
  bool has_batch_sampler = false;
  std::uint64_t list_seed = 0;                   ///< of the lists of samplers
  std::int64_t population = 0;                   ///< samples that a sampler may list
  std::int64_t listed = 0;                       ///< samples that a sampler lists
  std::optional<std::uint64_t> failing_epoch;    ///< epoch at which the sampler throws
  std::optional<std::uint64_t> failing_samples;  ///< `transform` throws for one in so many samples
  std::optional<std::uint64_t> failing_batches;  ///< `collate_fn` throws for one in so many first samples
  bool transforms = false;
  bool collates = false;
  std::string text;

  /// Returns the samples that sampler or batch sampler list for an epoch, as numbers of the subset.
  std::vector<std::int64_t> list(std::uint64_t epoch) const;
  /// Returns the batches of the batch sampler.
  std::vector<std::vector<std::int64_t>> batches(std::uint64_t epoch) const;

  bool transform_throws(std::uint64_t epoch, std::int64_t sample) const;
  bool collate_throws(const std::vector<std::int64_t>& samples) const;
  /// Returns whether a position means the same for every world size.
  bool may_change_world_size() const {
    return options.shard == Shard::strided && options.uneven == Uneven::exact && !has_batch_sampler;
  }
};

/// Options that do not change the samples of a training. They may differ after a resume.
struct Size {
  DataLoaderOptions options;  ///< workers, memory, batch size, number of ranks
  bool init_throws = false;   ///< whether `worker_init_fn` throws
  bool rank_threads = false;  ///< whether each rank has a thread of its own
  bool watched = false;       ///< whether a thread reads statistics and reports meanwhile
  std::string text;
};

/// Draws a training on the data.
Training any_training(Draw& draw, const RandomData& data);

/// Draws a size for it, with `world_size` if given. Logs and lists of bad chunks go to `folder`.
Size any_size(Draw& draw, const RandomData& data, const Training& training,
              const std::filesystem::path& folder, std::optional<std::int64_t> world_size);

/// Returns the options of one rank, with planted exceptions.
DataLoaderOptions options_of(const Training& training, const Size& size, std::int64_t rank);

/// Returns options that give the same order as those of the rank, for a loader without workers, functions of
/// the user and conversions.
DataLoaderOptions order_of(const Training& training, const Size& size, std::int64_t rank);

/// Returns options of a loader without workers that delivers every sample of the dataset in file order with
/// the values that the training delivers.
DataLoaderOptions values_of(const Training& training);

}  // namespace h5feed::test
