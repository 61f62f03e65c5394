// SPDX-License-Identifier: Apache-2.0
// The training that every rung runs, and what is measured of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ladder/rungs.hpp"
#include "ladder/settings.hpp"

namespace h5feed::ladder {

/// Measurements of one training, from opening the file to the end of the last step.
struct Result {
  std::string device;
  std::int64_t samples = 0;  ///< trained on, repeats of echo included
  std::int64_t fresh = 0;    ///< trained on, without repeats
  std::int64_t steps = 0;
  double seconds = 0;
  double wait_seconds = 0;  ///< the training thread's time to get batches
  /// For each epoch, the part of `wait_seconds` for its first batch, in seconds.
  std::vector<double> first_waits = {};
  double cpu_seconds = 0;               ///< of all threads
  std::uint64_t host_idle_bytes = 0;    ///< resident before the file was opened: LibTorch and the network
  std::uint64_t host_peak_bytes = 0;    ///< most resident memory
  std::optional<double> gpu_busy = {};  ///< share of time, 0 … 1; unset without a GPU
  std::optional<std::uint64_t> device_peak_bytes = {};
  std::string gpu_why_not = {};  ///< reason why the figures of the GPU are unset
  double learning_rate = 0;      ///< after the warm-up
  double loss = 0;               ///< mean of the last epoch
  /// Sum over the samples of an epoch of some normalized values, weighted by the labels: equal, but for
  /// rounding, if all rungs train on the same samples with the same labels.
  double check_sum = 0;
};

/// Returns why `rung` does not apply on the device of `settings`; empty if it does.
std::string why_not(Rung rung, const Settings& settings);

/// Trains and measures. Throws OptionError, DatasetError or H5::Exception.
Result train(Rung rung, const Settings& settings);

}  // namespace h5feed::ladder
