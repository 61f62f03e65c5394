#include "plan/listed_order.hpp"

#include <fmt/format.h>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"

namespace h5feed {

std::uint64_t sampled(std::int64_t number, std::uint64_t num_samples, const SampleSubset* subset) {
  if (number < 0 || static_cast<std::uint64_t>(number) >= num_samples) {
    throw OptionError(fmt::format("the sampler gave sample {}; the dataset has {}, numbered 0 to {}", number,
                                  format_count(num_samples), num_samples - 1));
  }
  const auto place = static_cast<std::uint64_t>(number);
  return subset == nullptr ? place : subset->given(place);
}

std::uint64_t SamplerOrder::at(std::uint64_t position) const {
  return sampled(samples_->at(position), num_samples_, subset_.get());
}

}  // namespace h5feed
