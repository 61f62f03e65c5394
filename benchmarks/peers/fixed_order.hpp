// SPDX-License-Identifier: Apache-2.0
// LibTorch sampler that gives rows in the order of a list.
#pragma once

#include <torch/data/samplers/base.h>
#include <torch/data/samplers/random.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "peers/shared_file.hpp"

namespace h5feed::peers {

/// Sampler that gives the same order in every epoch.
class FixedOrder : public torch::data::samplers::Sampler<> {
 public:
  /// LibTorch's optional type: its own before 2.0, the standard one since.
  using OptionalIndices = decltype(std::declval<torch::data::samplers::RandomSampler&>().next(1));

  /// `order` lists the rows of one epoch.
  explicit FixedOrder(std::vector<std::size_t> order) : order_(std::move(order)) {}
  void reset(OptionalSize = OptionalSize()) override { position_ = 0; }
  OptionalIndices next(std::size_t batch_size) override {
    if (position_ == order_.size()) return OptionalIndices();
    const std::size_t end = std::min(position_ + batch_size, order_.size());
    std::vector<std::size_t> batch(order_.begin() + static_cast<std::ptrdiff_t>(position_),
                                   order_.begin() + static_cast<std::ptrdiff_t>(end));
    position_ = end;
    return batch;
  }
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}

 private:
  std::vector<std::size_t> order_;
  std::size_t position_ = 0;
};

}  // namespace h5feed::peers
