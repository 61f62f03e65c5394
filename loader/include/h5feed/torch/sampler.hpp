// SPDX-License-Identifier: Apache-2.0
// Adapts LibTorch samplers to h5feed's Sampler. Part of h5feed/torch.hpp.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/data/samplers/base.h>
#include <torch/types.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "h5feed/error.hpp"
#include "h5feed/sampler.hpp"

namespace h5feed {

/// A LibTorch sampler that yields sample numbers: RandomSampler, SequentialSampler, the distributed samplers,
/// or a custom one. It must be copyable, end after one epoch, and fill every batch except the last.
/// StreamSampler, which yields counts, is excluded.
template <typename S>
concept TorchSampler = std::copy_constructible<S> &&
    std::derived_from<S, torch::data::samplers::Sampler<typename S::BatchRequestType>> &&
    std::same_as<typename S::BatchRequestType, std::vector<std::size_t>>;

namespace detail {

/// Presents a stateful LibTorch sampler as a Sampler. It holds the order of the epoch begun last; before the
/// first epoch, the order that a copy of the sampler yields without a reset, or after a reset if it yields
/// none. `begin()`, `set_epoch()` and `resume()` are for the consumer's thread; the rest is thread-safe.
class TorchOrder final : public Sampler {
  struct List final : EpochSamples {
    explicit List(std::vector<std::int64_t> of) : samples(std::move(of)) {}
    std::int64_t size() const noexcept override { return static_cast<std::int64_t>(samples.size()); }
    std::int64_t at(std::int64_t index) const override { return samples[static_cast<std::size_t>(index)]; }
    const std::vector<std::int64_t> samples;
  };

 public:
  /// Default limit of samples per epoch (512 MiB of sample numbers). A sampler that exceeds the limit is
  /// treated as one that does not end.
  static constexpr std::size_t kMostSamples = std::size_t{1} << 26;

  /// Takes over `sampler` and drains a copy of it for the first order. Requests batches of `batch_size` (at
  /// least 1) samples, as LibTorch's loader does. Throws OptionError if the sampler yields batches of other
  /// sizes, or more than `most_samples` samples per epoch; rethrows what the sampler throws.
  template <TorchSampler S>
  TorchOrder(S sampler, std::size_t batch_size, std::size_t most_samples = kMostSamples)
      : batch_size_(batch_size), most_samples_(most_samples) {
    // Draining a copy determines the number of samples; the sampler itself draws only when LibTorch's loader
    // would.
    S copy = sampler;
    order_.samples = drain(copy);
    if (order_.samples->size() == 0) order_.samples = drain_after_reset(copy);
    auto owned = std::make_shared<S>(std::move(sampler));
    if constexpr (requires { owned->set_epoch(std::size_t{}); }) {
      set_epoch_ = [owned](std::uint64_t epoch) { owned->set_epoch(static_cast<std::size_t>(epoch)); };
    }
    source_ = std::move(owned);
  }

  /// Sample numbers of one epoch, in order of delivery.
  struct Order {
    std::shared_ptr<const List> samples;
    std::optional<std::uint64_t> epoch;  ///< empty before the first epoch
    bool resumed = false;                ///< the next `begin()` of this epoch keeps `samples`
  };

  /// Resets the sampler and drains the order of `epoch` from it. The first call after `resume()` of the same
  /// epoch keeps the resumed order instead. Throws OptionError for batches of other sizes or too many
  /// samples; the held order then is unchanged.
  void begin(std::uint64_t epoch) {
    Order order = current();
    if (!order.resumed || order.epoch != epoch) {
      source_->reset(torch::nullopt);
      order = {drain(*source_), epoch};
    }
    order.resumed = false;
    put(std::move(order));
  }

  /// Forwards `epoch` to the sampler's `set_epoch()`, if it has one.
  void set_epoch(std::uint64_t epoch) {
    if (set_epoch_) set_epoch_(epoch);
  }

  /// Replaces the order by `list`, the saved order of the resumed `epoch`. Returns the previous order, which
  /// `put()` restores.
  Order resume(std::uint64_t epoch, const torch::Tensor& list) {
    const torch::Tensor samples = list.to(torch::kCPU, torch::kInt64).contiguous();
    const auto* const first = samples.data_ptr<std::int64_t>();
    Order before = current();
    put({std::make_shared<const List>(std::vector<std::int64_t>(first, first + samples.numel())), epoch,
         true});
    return before;
  }

  /// Replaces the held order. Thread-safe.
  void put(Order order) {
    const std::lock_guard lock(mutex_);
    order_ = std::move(order);
  }

  /// Returns a copy of the held order as an int64 tensor of sample numbers. Thread-safe.
  torch::Tensor list() const {
    const Order now = current();
    const std::vector<std::int64_t>& numbers = now.samples->samples;
    torch::Tensor samples = torch::empty({now.samples->size()}, torch::kInt64);
    std::memcpy(samples.data_ptr(), numbers.data(), numbers.size() * sizeof(std::int64_t));
    return samples;
  }

  /// Returns the held order. Throws OptionError if an epoch other than `epoch` was begun last. Thread-safe.
  std::shared_ptr<const EpochSamples> epoch(std::uint64_t, std::uint64_t epoch) const override {
    const Order now = current();
    if (now.epoch && *now.epoch != epoch) {
      throw OptionError("a sampler of LibTorch gives an epoch's order when the epoch begins; call begin()");
    }
    return now.samples;
  }

  /// Returns a constant, because random samplers draw a new order every epoch.
  std::uint64_t fingerprint() const override { return 0x6c6962746f726368; }

 private:
  std::shared_ptr<const List> drain(torch::data::samplers::Sampler<>& sampler) const {
    std::vector<std::int64_t> samples;
    std::size_t last_batch = batch_size_;
    while (const auto batch = sampler.next(batch_size_)) {
      if (last_batch != batch_size_ || batch->empty() || batch->size() > batch_size_) {
        throw OptionError("the sampler gives batches of its own sizes (" +
                          std::to_string(batch->size() > batch_size_ ? batch->size() : last_batch) +
                          " of batch_size " + std::to_string(batch_size_) +
                          " samples, and not at the end of the epoch), which would be divided differently "
                          "here; give such batches to "
                          "options.batch_sampler");
      }
      last_batch = batch->size();
      for (const std::size_t sample : *batch) samples.push_back(static_cast<std::int64_t>(sample));
      if (samples.size() > most_samples_) {
        throw OptionError("the sampler gave " + std::to_string(samples.size()) +
                          " samples and does not end, and its order is taken when an epoch begins; let "
                          "next() return nullopt at the end of an epoch");
      }
    }
    return std::make_shared<const List>(std::move(samples));
  }

  // Resets and drains `sampler`, then restores the state of Torch's generator.
  std::shared_ptr<const List> drain_after_reset(torch::data::samplers::Sampler<>& sampler) const {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    torch::Tensor before;
    {
      const std::lock_guard<std::mutex> lock(generator.mutex());
      before = generator.get_state();
    }
    sampler.reset(torch::nullopt);
    std::shared_ptr<const List> samples = drain(sampler);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(before);
    return samples;
  }

  Order current() const {
    const std::lock_guard lock(mutex_);
    return order_;
  }

  const std::size_t batch_size_;
  const std::size_t most_samples_;

  // Used by the consumer's thread only.
  std::shared_ptr<torch::data::samplers::Sampler<>> source_;
  std::function<void(std::uint64_t)> set_epoch_;

  mutable std::mutex mutex_;
  Order order_;
};

}  // namespace detail
}  // namespace h5feed
