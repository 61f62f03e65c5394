// SPDX-License-Identifier: Apache-2.0
// Sums gradients over all ranks, in buckets.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "examples/ranks.hpp"

namespace example {

/// Packs gradients into buckets of about 25 MB, last layers first: one large all-reduce is faster than many
/// small ones, and several run at once (Li et al., "PyTorch Distributed", VLDB 2020, arXiv 2006.15704,
/// section 3.2.1).
class GradientSum {
 public:
  static constexpr std::size_t kBucketBytes = std::size_t{25} << 20;

  /// `parameters` must be the same, in the same order, on every rank.
  explicit GradientSum(std::vector<torch::Tensor> parameters, std::size_t bucket_bytes = kBucketBytes) {
    std::size_t bytes = bucket_bytes;
    for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
      if (bytes >= bucket_bytes) {
        buckets_.emplace_back();
        bytes = 0;
      }
      buckets_.back().push_back(*parameter);
      bytes += parameter->nbytes();
    }
  }

  /// Number of buckets.
  std::size_t buckets() const noexcept { return buckets_.size(); }

  /// Replaces every gradient by its sum over all ranks, divided by the sum of `samples`. If losses are sums
  /// over a rank's samples, this is the gradient of the mean over the global batch, however the batch is
  /// sharded, even if a rank has no samples (an undefined gradient counts as 0). Returns `also`, summed over
  /// all ranks. Blocks.
  torch::Tensor run(Communicator& ranks, std::int64_t samples, const torch::Tensor& also) {
    std::vector<torch::Tensor> sums;
    for (const auto& bucket : buckets_) sums.push_back(ranks.summable(packed(bucket)));
    const torch::Tensor total = torch::full({1}, samples, torch::kInt64);
    const torch::Tensor also_sum = also.clone();
    sums.push_back(total);
    sums.push_back(also_sum);
    ranks.sum(sums);
    const auto divisor = static_cast<double>(total.item<std::int64_t>());
    for (std::size_t i = 0; i < buckets_.size(); ++i) unpack(sums[i].div_(divisor), buckets_[i]);
    return also_sum;
  }

 private:
  static torch::Tensor packed(const std::vector<torch::Tensor>& parameters) {
    std::vector<torch::Tensor> flat;
    for (const torch::Tensor& parameter : parameters) {
      const torch::Tensor gradient = parameter.grad();
      flat.push_back((gradient.defined() ? gradient : torch::zeros_like(parameter)).detach().flatten());
    }
    return torch::cat(flat);
  }

  static void unpack(const torch::Tensor& sum, const std::vector<torch::Tensor>& parameters) {
    std::int64_t at = 0;
    for (torch::Tensor parameter : parameters) {
      const torch::Tensor part = sum.narrow(0, at, parameter.numel()).view(parameter.sizes());
      parameter.mutable_grad() = part.to(parameter.device()).clone();
      at += parameter.numel();
    }
  }

  std::vector<std::vector<torch::Tensor>> buckets_;
};

}  // namespace example
