// SPDX-License-Identifier: Apache-2.0
// Batches of the file, delivered as a rung does it.
#pragma once

#include <torch/data/example.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ladder/rungs.hpp"
#include "ladder/settings.hpp"

namespace h5feed::ladder {

/// Source of batches, epoch after epoch. For one thread.
class Feed {
 public:
  virtual ~Feed() = default;

  /// Starts epoch 0, 1, 2, …; below the rung `gapless` with a new loader.
  virtual void start_epoch(std::uint64_t epoch) = 0;
  /// Returns the next batch of the epoch, uint8 or normalized float32, with its labels in int64; nullopt at
  /// the end. Blocks until it is ready.
  virtual std::optional<torch::data::Example<>> next() = 0;

  /// Samples of an epoch without repeats.
  virtual std::int64_t size() const = 0;
  /// Channels, height and width of a sample.
  virtual std::vector<std::int64_t> sample_shape() const = 0;
};

/// Opens the file and returns the rung's source of batches for a training on `device`. From the rung `pinned`
/// on, batches for a GPU are on it. Throws DatasetError, OptionError or H5::Exception.
std::unique_ptr<Feed> make_feed(Rung rung, const Settings& settings, torch::Device device);

}  // namespace h5feed::ladder
