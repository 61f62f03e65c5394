// SPDX-License-Identifier: Apache-2.0
// Learning rate that grows with the batch size, after a warm-up: Goyal et al., "Accurate, large minibatch
// SGD: training ImageNet in 1 hour", 2017, arXiv 1706.02677, sections 2.1 and 2.2.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>

namespace example {

/// Rate of each step: it rises linearly from the rate of the reference batch size to the full rate.
class LearningRate {
 public:
  /// The batch size for which a program's --learning-rate is given.
  static constexpr double kReferenceBatch = 64;

  /// Returns `base` scaled linearly from `kReferenceBatch` to `batch_size`.
  static double linearly_scaled(double base, std::int64_t batch_size) noexcept {
    return base * static_cast<double>(batch_size) / kReferenceBatch;
  }

  /// `warmup_steps` may be 0: every step then has the rate `full`.
  LearningRate(double base, double full, double warmup_steps) noexcept
      : base_(base), full_(full), warmup_steps_(warmup_steps) {}

  double full() const noexcept { return full_; }
  double at(double step) const noexcept {
    return step < warmup_steps_ ? base_ + (full_ - base_) * step / warmup_steps_ : full_;
  }
  /// Sets the rate of `step` in all parameter groups.
  void set(torch::optim::Optimizer& optimizer, double step) const {
    for (auto& group : optimizer.param_groups()) group.options().set_lr(at(step));
  }

 private:
  double base_;
  double full_;
  double warmup_steps_;
};

}  // namespace example
