// SPDX-License-Identifier: Apache-2.0
// Samplers of LibTorch as orders of h5feed. Part of h5feed/torch.hpp.
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

/// A sampler of LibTorch that gives sample numbers: RandomSampler, SequentialSampler, the distributed ones,
/// or a user's that can be copied, ends, and fills every batch but the last. Not StreamSampler, which gives
/// counts.
template <typename S>
concept TorchSampler = std::copy_constructible<S> &&
    std::derived_from<S, torch::data::samplers::Sampler<typename S::BatchRequestType>> &&
    std::same_as<typename S::BatchRequestType, std::vector<std::size_t>>;

namespace detail {

/// The order that a stateful sampler gives, one epoch at a time: that of the epoch begun last, and before the
/// first one what the sampler would give without a reset, or after one if that is nothing. Thread-safe.
class TorchOrder final : public Sampler {
  struct List final : EpochSamples {
    explicit List(std::vector<std::int64_t> of) : samples(std::move(of)) {}
    std::uint64_t size() const noexcept override { return samples.size(); }
    std::int64_t at(std::uint64_t position) const override { return samples[position]; }
    const std::vector<std::int64_t> samples;
  };

 public:
  /// Samples of an epoch, 512 MiB of numbers, beyond which a sampler counts as one that does not end, unless
  /// the caller knows of more.
  static constexpr std::size_t kMostSamples = std::size_t{1} << 26;

  /// The sampler is asked for batches of `batch_size`, at least 1, as LibTorch's loader would ask. Throws
  /// OptionError where it gives batches of other sizes, or more than `most_samples` samples an epoch.
  template <TorchSampler S>
  TorchOrder(S sampler, std::size_t batch_size, std::size_t most_samples = kMostSamples)
      : batch_size_(batch_size), most_samples_(most_samples) {
    // A copy is asked how many samples there are, so that the sampler itself draws only when LibTorch's
    // loader would.
    S copy = sampler;
    order_.samples = drain(copy);
    if (order_.samples->size() == 0) order_.samples = drain_after_reset(copy);
    auto owned = std::make_shared<S>(std::move(sampler));
    if constexpr (requires { owned->set_epoch(std::size_t{}); }) {
      set_epoch_ = [owned](std::uint64_t epoch) { owned->set_epoch(static_cast<std::size_t>(epoch)); };
    }
    source_ = std::move(owned);
  }

  /// Which samples there are, of which epoch.
  struct Order {
    std::shared_ptr<const List> samples;
    std::optional<std::uint64_t> epoch;  ///< empty before the first one
    bool resumed = false;                ///< the next `begin()` of this epoch keeps them
  };

  /// Resets the sampler and takes the order of `epoch` from it; after `resume()` for that epoch, once, keeps
  /// what that brought.
  void begin(std::uint64_t epoch) {
    Order order = current();
    if (!order.resumed || order.epoch != epoch) {
      source_->reset(torch::nullopt);
      order = {drain(*source_), epoch};
    }
    order.resumed = false;
    put(std::move(order));
  }

  void set_epoch(std::uint64_t epoch) {
    if (set_epoch_) set_epoch_(epoch);
  }

  /// Takes the order of an epoch that is to go on. Returns what was there, to be put back.
  Order resume(std::uint64_t epoch, const torch::Tensor& list) {
    const torch::Tensor samples = list.to(torch::kCPU, torch::kInt64).contiguous();
    const auto* const first = samples.data_ptr<std::int64_t>();
    Order before = current();
    put({std::make_shared<const List>(std::vector<std::int64_t>(first, first + samples.numel())), epoch,
         true});
    return before;
  }

  void put(Order order) {
    const std::lock_guard lock(mutex_);
    order_ = std::move(order);
  }

  torch::Tensor list() const {
    const Order now = current();
    torch::Tensor samples = torch::empty({static_cast<std::int64_t>(now.samples->size())}, torch::kInt64);
    std::memcpy(samples.data_ptr(), now.samples->samples.data(), now.samples->size() * sizeof(std::int64_t));
    return samples;
  }

  std::shared_ptr<const EpochSamples> epoch(std::uint64_t, std::uint64_t epoch) const override {
    const Order now = current();
    if (now.epoch && *now.epoch != epoch) {
      throw OptionError("a sampler of LibTorch gives an epoch's order when the epoch begins; call begin()");
    }
    return now.samples;
  }

  /// Not of the samples, which random samplers draw anew.
  std::uint64_t fingerprint() const override { return 0x6c6962746f726368; }

 private:
  std::shared_ptr<const List> drain(torch::data::samplers::Sampler<>& sampler) const {
    std::vector<std::int64_t> samples;
    std::size_t last_batch = batch_size_;
    while (const auto batch = sampler.next(batch_size_)) {
      if (last_batch != batch_size_ || batch->empty() || batch->size() > batch_size_) {
        throw OptionError(
            "the sampler gives batches of its own sizes (" +
            std::to_string(batch->size() > batch_size_ ? batch->size() : last_batch) + " of batch_size " +
            std::to_string(batch_size_) +
            " samples, and not at the end of the epoch), which would be cut anew here; give such batches to "
            "options.batch_sampler");
      }
      last_batch = batch->size();
      for (const std::size_t sample : *batch) samples.push_back(static_cast<std::int64_t>(sample));
      if (samples.size() > most_samples_) {
        throw OptionError("the sampler gave " + std::to_string(samples.size()) +
                          " samples and does not end, and its order is taken when an epoch begins; let "
                          "next() return nullopt where an epoch ends");
      }
    }
    return std::make_shared<const List>(std::move(samples));
  }

  // With Torch's generator put back, as if nothing had been drawn from it.
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

  // The consumer's thread only.
  std::shared_ptr<torch::data::samplers::Sampler<>> source_;
  std::function<void(std::uint64_t)> set_epoch_;

  mutable std::mutex mutex_;
  Order order_;
};

}  // namespace detail
}  // namespace h5feed
