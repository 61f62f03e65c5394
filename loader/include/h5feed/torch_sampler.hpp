// Samplers of LibTorch as orders of h5feed. Part of h5feed/torch.hpp.
#pragma once

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
#include <type_traits>
#include <utility>
#include <vector>

#include "h5feed/error.hpp"
#include "h5feed/sampler.hpp"

namespace h5feed {

/// A sampler of LibTorch that gives sample numbers: RandomSampler, SequentialSampler, the distributed ones,
/// or a user's. Not StreamSampler, which gives counts.
template <typename S>
concept TorchSampler = std::derived_from<S, torch::data::samplers::Sampler<typename S::BatchRequestType>> &&
    std::same_as<typename S::BatchRequestType, std::vector<std::size_t>>;

namespace detail {

/// The order that a stateful sampler gives, one epoch at a time: that of the epoch begun last, and before the
/// first one what the sampler would give without a reset. Thread-safe.
class TorchOrder final : public Sampler {
 public:
  template <TorchSampler S>
  explicit TorchOrder(S sampler) {
    // A copy is asked how many samples there are, so that the sampler itself draws only when LibTorch's
    // loader would.
    S copy = sampler;
    list_ = drain(copy);
    auto owned = std::make_shared<S>(std::move(sampler));
    if constexpr (requires { owned->set_epoch(std::size_t{}); }) {
      set_epoch_ = [owned](std::uint64_t epoch) { owned->set_epoch(static_cast<std::size_t>(epoch)); };
    }
    source_ = std::move(owned);
  }

  /// Resets the sampler and takes the order of `epoch` from it; after `resume()` for that epoch, once, keeps
  /// what that brought.
  void begin(std::uint64_t epoch) {
    const bool resumed = std::exchange(resumed_, std::nullopt) == epoch;
    if (resumed) return;
    source_->reset(torch::nullopt);
    keep(epoch, drain(*source_));
  }

  void set_epoch(std::uint64_t epoch) {
    if (set_epoch_) set_epoch_(epoch);
  }

  /// The order of an epoch that is to go on.
  void resume(std::uint64_t epoch, const torch::Tensor& list) {
    const torch::Tensor samples = list.to(torch::kCPU, torch::kInt64).contiguous();
    const auto* const first = samples.data_ptr<std::int64_t>();
    keep(epoch, std::make_shared<const List>(std::vector<std::int64_t>(first, first + samples.numel())));
    resumed_ = epoch;
  }

  torch::Tensor list() const {
    const std::shared_ptr<const List> now = current();
    torch::Tensor samples = torch::empty({static_cast<std::int64_t>(now->size())}, torch::kInt64);
    std::memcpy(samples.data_ptr(), now->samples.data(), now->samples.size() * sizeof(std::int64_t));
    return samples;
  }

  std::shared_ptr<const EpochSamples> epoch(std::uint64_t, std::uint64_t epoch) const override {
    const std::lock_guard lock(mutex_);
    if (begun_ && *begun_ != epoch) {
      throw OptionError("a sampler of LibTorch gives an epoch's order when the epoch begins; call begin()");
    }
    return list_;
  }

  /// Not of the samples, which random samplers draw anew.
  std::uint64_t fingerprint() const override { return 0x6c6962746f726368; }

 private:
  struct List final : EpochSamples {
    explicit List(std::vector<std::int64_t> of) : samples(std::move(of)) {}
    std::uint64_t size() const noexcept override { return samples.size(); }
    std::int64_t at(std::uint64_t position) const override { return samples[position]; }
    const std::vector<std::int64_t> samples;
  };

  static std::shared_ptr<const List> drain(torch::data::samplers::Sampler<>& sampler) {
    constexpr std::size_t kAtOnce = std::size_t{1} << 16;
    std::vector<std::int64_t> samples;
    while (const auto some = sampler.next(kAtOnce)) {
      for (const std::size_t sample : *some) samples.push_back(static_cast<std::int64_t>(sample));
    }
    return std::make_shared<const List>(std::move(samples));
  }

  std::shared_ptr<const List> current() const {
    const std::lock_guard lock(mutex_);
    return list_;
  }

  void keep(std::uint64_t epoch, std::shared_ptr<const List> list) {
    const std::lock_guard lock(mutex_);
    list_ = std::move(list);
    begun_ = epoch;
  }

  // The consumer's thread only.
  std::shared_ptr<torch::data::samplers::Sampler<>> source_;
  std::function<void(std::uint64_t)> set_epoch_;
  std::optional<std::uint64_t> resumed_;

  mutable std::mutex mutex_;
  std::shared_ptr<const List> list_;
  std::optional<std::uint64_t> begun_;  // empty before the first epoch
};

}  // namespace detail
}  // namespace h5feed
