// SPDX-License-Identifier: Apache-2.0
// Samplers and batch samplers: sample orders supplied by the user, with PyTorch's names
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

/// The samples of one epoch in delivery order. Implementations must be immutable and thread-safe.
class H5FEED_EXPORT EpochSamples {
 public:
  virtual ~EpochSamples();
  /// Returns the number of samples delivered in the epoch, including repeats; at least 0.
  virtual std::int64_t size() const noexcept = 0;
  /// Returns the sample number at `index`, 0 … `size()` − 1: a number from 0 to the dataset's size − 1.
  /// Samples may repeat or be left out. The `next()` that would deliver a number out of range throws.
  virtual std::int64_t at(std::int64_t index) const = 0;
};

/// Determines the samples of an epoch and their order. With several ranks it gives the global order, which
/// must be the same on each rank. Implementations must be thread-safe.
class H5FEED_EXPORT Sampler {
 public:
  virtual ~Sampler();
  /// Returns the samples of an epoch; never null. Must be a pure function of (seed, epoch), as a resumed
  /// epoch calls it again. Called on the consumer's thread, also by the constructor of the loader, `plan()`
  /// and `restore()`, and for the next epoch while the current one is delivered. An exception is thrown by
  /// the call that needs the epoch.
  virtual std::shared_ptr<const EpochSamples> epoch(std::uint64_t seed, std::uint64_t epoch) const = 0;
  /// Returns a hash that identifies the order in a saved state; must be equal for samplers that give the same
  /// orders. Default: 0, which does not distinguish custom samplers. Samplers of `make_sampler` hash their
  /// epoch 0.
  virtual std::uint64_t fingerprint() const;
};

/// The batches of one epoch in delivery order. Implementations must be immutable and thread-safe.
class H5FEED_EXPORT EpochBatches {
 public:
  virtual ~EpochBatches();
  /// Returns the number of batches.
  virtual std::uint64_t size() const noexcept = 0;
  /// Returns the sample numbers of batch `number` < `size()`: at least one, at most
  /// `BatchSampler::max_batch_size()`.
  virtual std::vector<std::int64_t> at(std::uint64_t number) const = 0;
};

/// Determines the batches of an epoch. With several ranks, rank r delivers the batches r, r + world_size, …
/// Implementations must be thread-safe.
class H5FEED_EXPORT BatchSampler {
 public:
  virtual ~BatchSampler();
  /// Returns the batches of an epoch; never null. Must be a pure function of (seed, epoch), as a resumed
  /// epoch calls it again. Called on the consumer's thread, as `Sampler::epoch` is. An exception is thrown by
  /// the call that needs the epoch.
  virtual std::shared_ptr<const EpochBatches> epoch(std::uint64_t seed, std::uint64_t epoch) const = 0;
  /// Returns the samples of the largest batch, 1 to 2³¹. Called once: memory for batches is allocated for
  /// this size.
  virtual std::int64_t max_batch_size() const noexcept = 0;
  /// Returns a hash that identifies the batches in a saved state; must be equal for batch samplers that give
  /// the same batches. Default: 0, which does not distinguish custom batch samplers.
  virtual std::uint64_t fingerprint() const;
};

/// Returns a sampler that calls `list_samples` for each epoch, on the consumer's thread. The list takes 8
/// bytes per sample. Throws OptionError if the function is empty.
H5FEED_EXPORT std::shared_ptr<const Sampler> make_sampler(
    std::function<std::vector<std::int64_t>(std::uint64_t epoch)> list_samples);

/// Returns a batch sampler that calls `list_batches` for each epoch. Batches have at most `max_batch_size`
/// samples.
H5FEED_EXPORT std::shared_ptr<const BatchSampler> make_batch_sampler(
    std::function<std::vector<std::vector<std::int64_t>>(std::uint64_t epoch)> list_batches,
    std::int64_t max_batch_size);

/// Delivers the given samples in an order that is permuted in each epoch. Takes 8 bytes per sample.
class H5FEED_EXPORT SubsetRandomSampler final : public Sampler {
 public:
  /// Creates a sampler of these sample numbers. Throws OptionError if the list is empty.
  explicit SubsetRandomSampler(std::vector<std::int64_t> samples);
  std::shared_ptr<const EpochSamples> epoch(std::uint64_t seed, std::uint64_t epoch) const override;
  std::uint64_t fingerprint() const override;

 private:
  std::shared_ptr<const std::vector<std::int64_t>> samples_;
};

/// Draws sample i with a probability proportional to `weights[i]`.
///
/// With replacement, each draw is a function of (seed, epoch, position), by Walker's alias method (Walker,
/// "An efficient method for generating discrete random variables with general distributions", ACM TOMS 1977;
/// built as in Vose 1991); takes 16 bytes per sample, for all epochs together. Without replacement, keys are
/// sorted (Efraimidis, Spirakis, "Weighted random sampling with a reservoir", 2006); takes 16 bytes per
/// sample and one sort per epoch.
class H5FEED_EXPORT WeightedRandomSampler final : public Sampler {
 public:
  /// Creates a sampler of `num_samples` draws per epoch. Throws OptionError if weights are negative, not
  /// finite, or all zero; if `num_samples` is below 1; and, without replacement, if `num_samples` exceeds the
  /// number of weights above zero.
  WeightedRandomSampler(std::span<const double> weights, std::int64_t num_samples, bool replacement = true);
  std::shared_ptr<const EpochSamples> epoch(std::uint64_t seed, std::uint64_t epoch) const override;
  std::uint64_t fingerprint() const override;

 private:
  struct Table;
  std::shared_ptr<const Table> table_;
  std::int64_t num_samples_;
};

/// Delivers the order of `torch.randperm(n)` after `manual_seed(seed + epoch)` on a CPU generator. As
/// `sampler`, with `Shard::strided` and `Uneven::pad` (or `drop`), it reproduces PyTorch's
/// `DistributedSampler(shuffle=True, seed=seed, drop_last=False)` (or True) with its `set_epoch(epoch)`.
/// Takes 8 bytes per sample and epoch; the built-in `shuffle = true` needs no such list.
class H5FEED_EXPORT TorchRandomSampler final : public Sampler {
 public:
  /// Creates a sampler for a dataset of `num_samples` samples. Throws OptionError if that is below 1.
  explicit TorchRandomSampler(std::int64_t num_samples);
  std::shared_ptr<const EpochSamples> epoch(std::uint64_t seed, std::uint64_t epoch) const override;
  std::uint64_t fingerprint() const override;

 private:
  std::int64_t num_samples_;
};

}  // namespace h5feed
