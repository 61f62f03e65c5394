// SPDX-License-Identifier: Apache-2.0
// Helpers shared by the tests of the LibTorch adapter.
#pragma once

#include <torch/data/example.h>
#include <torch/types.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "h5feed/dataset.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {

/// Returns the specification of 100 images of 8 × 6 pixels in ten compressed chunks. A sample's label is its
/// number.
inline SampleSetSpec numbered_images() {
  return {.shape = {100, 8, 6}, .chunk_shape = {10, 8, 6}, .gzip = 4, .fletcher32 = true, .label_count = 100};
}

/// Returns a stored image as a tensor of shape (1,8,6).
inline torch::Tensor stored_image(const SampleSet& set, std::int64_t sample) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(set.sample(sample));
  return torch::tensor(torch::ArrayRef<std::uint8_t>(bytes, set.sample_bytes())).reshape({1, 8, 6});
}

/// Returns 0, 1, …, count − 1.
inline std::vector<std::int64_t> first_samples(std::int64_t count) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(count));
  std::iota(samples.begin(), samples.end(), 0);
  return samples;
}

/// Appends the targets of a batch to `targets`.
inline void append_targets(const torch::data::Example<>& batch, std::vector<std::int64_t>& targets) {
  const torch::Tensor values = batch.target.to(torch::kInt64).flatten().contiguous();
  targets.insert(targets.end(), values.data_ptr<std::int64_t>(),
                 values.data_ptr<std::int64_t>() + values.numel());
}

/// Returns the targets of one epoch, in order.
template <typename Loader>
std::vector<std::int64_t> targets_of_epoch(Loader& loader) {
  std::vector<std::int64_t> targets;
  for (auto& batch : loader) append_targets(batch, targets);
  return targets;
}

}  // namespace h5feed::test
