// SPDX-License-Identifier: Apache-2.0
// Which crop and flip a sample gets.
#pragma once

#include <cstdint>
#include <vector>

#include "batch/row_kernel.hpp"
#include "h5feed/batch.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// `Augment` for images of one size. Immutable and thread-safe.
class Augmentation {
 public:
  /// Throws OptionError: a probability outside 0 … 1, a negative extent, a window larger than the padded
  /// image.
  Augmentation(const Augment& augment, std::uint64_t height, std::uint64_t width);

  const CropSizes& sizes() const noexcept { return sizes_; }

  /// A pure function of its arguments; `repeat` counts echoes of the same sample.
  SampleTransform draw(std::uint64_t seed, std::uint64_t epoch, std::uint64_t repeat,
                       std::int64_t sample) const noexcept;

  /// The same of every sample of a batch.
  std::vector<SampleTransform> draw_all(std::uint64_t seed, std::uint64_t epoch, std::uint64_t repeat,
                                        const std::vector<std::int64_t>& samples) const;

 private:
  double flip_;
  std::int64_t padding_ = 0;
  CropSizes sizes_;
};

}  // namespace h5feed
