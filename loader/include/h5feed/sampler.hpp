// SPDX-License-Identifier: Apache-2.0
// Orders of samples that a user brings: samplers and batch samplers, with PyTorch's names
// (torch.utils.data.sampler).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "h5feed/export.hpp"

namespace h5feed {

/// The samples of one epoch in order of delivery. Immutable and thread-safe.
class H5FEED_EXPORT EpochSamples {
 public:
  virtual ~EpochSamples();
  virtual std::uint64_t size() const noexcept = 0;
  /// The sample number at `position` < `size()`, from 0 to the dataset's size − 1; samples may repeat and
  /// be left out. A number outside is refused by the `next()` that would deliver it.
  virtual std::int64_t at(std::uint64_t position) const = 0;
};

/// Which samples an epoch delivers, and in which order. With several ranks it gives the global order, and
/// must give the same on each. Thread-safe.
class H5FEED_EXPORT Sampler {
 public:
  virtual ~Sampler();
  /// A pure function of (seed, epoch): an epoch that is resumed asks again. Called on the consumer's
  /// thread, also by the loader's constructor, `plan()` and `restore()`, and for the next epoch while the
  /// running one is delivered. Not null. What it throws arrives at the call that needs the epoch.
  virtual std::shared_ptr<const EpochSamples> epoch(std::uint64_t seed, std::uint64_t epoch) const = 0;
  /// Tells samplers apart in a saved state: equal for samplers that give the same orders. Samplers of
  /// `make_sampler` are known by their epoch 0, own ones that do not override this by nothing.
  virtual std::uint64_t fingerprint() const;
};

/// The batches of one epoch. Immutable and thread-safe.
class H5FEED_EXPORT EpochBatches {
 public:
  virtual ~EpochBatches();
  virtual std::uint64_t size() const noexcept = 0;
  /// The samples of batch `number` < `size()`: at least one, at most `BatchSampler::max_batch_size()`.
  virtual std::vector<std::int64_t> at(std::uint64_t number) const = 0;
};

/// Which batches an epoch delivers. With several ranks, rank r delivers the batches r, r + world_size, …
class H5FEED_EXPORT BatchSampler {
 public:
  virtual ~BatchSampler();
  /// As `Sampler::epoch`.
  virtual std::shared_ptr<const EpochBatches> epoch(std::uint64_t seed, std::uint64_t epoch) const = 0;
  /// Memory for batches is allocated once, for so many samples: asked for once, 1 to 2³¹.
  virtual std::int64_t max_batch_size() const noexcept = 0;
  virtual std::uint64_t fingerprint() const;
};

/// A sampler made from a function that lists an epoch's samples. The list takes 8 bytes a sample.
H5FEED_EXPORT std::shared_ptr<const Sampler> make_sampler(
    std::function<std::vector<std::int64_t>(std::uint64_t epoch)> list_samples);

/// A batch sampler made from a function that lists an epoch's batches.
H5FEED_EXPORT std::shared_ptr<const BatchSampler> make_batch_sampler(
    std::function<std::vector<std::vector<std::int64_t>>(std::uint64_t epoch)> list_batches,
    std::int64_t max_batch_size);

/// These samples, in an order that each epoch permutes anew. 8 bytes a sample.
class H5FEED_EXPORT SubsetRandomSampler final : public Sampler {
 public:
  /// Throws OptionError for an empty list.
  explicit SubsetRandomSampler(std::vector<std::int64_t> samples);
  std::shared_ptr<const EpochSamples> epoch(std::uint64_t seed, std::uint64_t epoch) const override;
  std::uint64_t fingerprint() const override;

 private:
  std::shared_ptr<const std::vector<std::int64_t>> samples_;
};

/// Sample i is drawn with a probability in proportion to `weights[i]`.
///
/// With replacement each draw is a function of (seed, epoch, position), by Walker's alias method (Walker,
/// "An efficient method for generating discrete random variables with general distributions", ACM TOMS
/// 1977; built as in Vose 1991): 16 bytes a sample, for all epochs together. Without replacement by keys
/// (Efraimidis, Spirakis, "Weighted random sampling with a reservoir", 2006): 16 bytes a sample and a
/// sort an epoch.
class H5FEED_EXPORT WeightedRandomSampler final : public Sampler {
 public:
  /// Throws OptionError for weights that are negative, not finite, or all zero; for `num_samples` below 1;
  /// and without replacement for more samples than have a weight above zero.
  WeightedRandomSampler(std::span<const double> weights, std::int64_t num_samples, bool replacement = true);
  std::shared_ptr<const EpochSamples> epoch(std::uint64_t seed, std::uint64_t epoch) const override;
  std::uint64_t fingerprint() const override;

 private:
  struct Table;
  std::shared_ptr<const Table> table_;
  std::uint64_t num_samples_;
};

/// The order of `torch.randperm(n)` after `manual_seed(seed + epoch)` on a CPU generator. As `sampler`
/// with `shard` strided and `uneven` pad (or drop) it reproduces PyTorch's
/// `DistributedSampler(shuffle=True, seed=seed, drop_last=False)` (or True) with its `set_epoch(epoch)`.
/// 8 bytes a sample an epoch; `shuffle = true` needs none.
class H5FEED_EXPORT TorchRandomSampler final : public Sampler {
 public:
  /// `num_samples`: size of the dataset. Throws OptionError below 1.
  explicit TorchRandomSampler(std::int64_t num_samples);
  std::shared_ptr<const EpochSamples> epoch(std::uint64_t seed, std::uint64_t epoch) const override;
  std::uint64_t fingerprint() const override;

 private:
  std::uint64_t num_samples_;
};

}  // namespace h5feed
