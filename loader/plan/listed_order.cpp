// SPDX-License-Identifier: Apache-2.0
#include "plan/listed_order.hpp"

#include <fmt/format.h>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"

namespace h5feed {

namespace {

template <typename AnySampler>
auto checked_epoch(const AnySampler& sampler, const char* name, std::uint64_t seed, std::uint64_t epoch) {
  auto given = sampler.epoch(seed, epoch);
  if (!given) throw OptionError(fmt::format("the {} gave nothing (null) for epoch {}", name, epoch));
  return given;
}

}  // namespace

std::shared_ptr<const EpochSamples> epoch_of(const Sampler& sampler, std::uint64_t seed,
                                             std::uint64_t epoch) {
  auto given = checked_epoch(sampler, "sampler", seed, epoch);
  if (given->size() < 0) {
    throw OptionError(
        fmt::format("the sampler gave {} samples for epoch {}; size() of its EpochSamples must be at least 0",
                    given->size(), epoch));
  }
  return given;
}

std::shared_ptr<const EpochBatches> epoch_of(const BatchSampler& sampler, std::uint64_t seed,
                                             std::uint64_t epoch) {
  return checked_epoch(sampler, "batch sampler", seed, epoch);
}

std::uint64_t sampled(std::int64_t number, std::uint64_t num_samples, const SampleSubset* subset) {
  if (number < 0 || static_cast<std::uint64_t>(number) >= num_samples) {
    throw OptionError(fmt::format("the sampler gave sample {}; the dataset has {}, numbered 0 to {}", number,
                                  format_count(num_samples), num_samples - 1));
  }
  const auto place = static_cast<std::uint64_t>(number);
  return subset == nullptr ? place : subset->given(place);
}

std::uint64_t SamplerOrder::at(std::uint64_t position) const {
  return sampled(samples_->at(static_cast<std::int64_t>(position)), num_samples_, subset_.get());
}

}  // namespace h5feed
