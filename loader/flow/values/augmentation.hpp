// SPDX-License-Identifier: Apache-2.0
// Draws the crop and flip of each sample.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "batch/row_kernel.hpp"
#include "h5feed/batch.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// `Augment` resolved for images of one size. Immutable and thread-safe.
class Augmentation {
 public:
  /// Creates the augmentation of images of `height` × `width` pixels. Throws OptionError for a probability
  /// outside 0 … 1, a negative or too large padding, a window with a negative extent or larger than the
  /// padded image, ranges of scale or ratio that are empty or out of bounds, or two kinds of crop.
  Augmentation(const Augment& augment, std::uint64_t height, std::uint64_t width);

  /// Extents of the image and of the window cut out of it, in pixels.
  const CropSizes& sizes() const noexcept { return sizes_; }

  /// Returns the crop and flip of one sample, a pure function of the arguments. `repeat` numbers the
  /// deliveries of the sample in an epoch (echo).
  SampleTransform draw(std::uint64_t seed, std::uint64_t epoch, std::int64_t repeat,
                       std::int64_t sample) const noexcept;

  /// Returns `draw` of every sample of a batch, in order. Throws std::bad_alloc.
  std::vector<SampleTransform> draw_all(std::uint64_t seed, std::uint64_t epoch, std::int64_t repeat,
                                        const std::vector<std::int64_t>& samples) const;

 private:
  void set_resized(const Augment::RandomResizedCrop& crop);
  void draw_window(std::uint64_t key, SampleTransform& transform) const noexcept;

  double flip_;
  double vertical_flip_;
  std::optional<Augment::RandomResizedCrop> resized_;
  std::int64_t padding_ = 0;
  CropSizes sizes_;
};

}  // namespace h5feed
