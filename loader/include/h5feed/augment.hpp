// SPDX-License-Identifier: Apache-2.0
// Random changes of samples: those that h5feed makes, and what a transform of the user gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>

#include "h5feed/dtype.hpp"
#include "h5feed/export.hpp"

namespace h5feed {

/// Random augmentation of training images, drawn per sample and epoch. A pure function of (seed, epoch,
/// sample number), plus the repeat number with `echo`; independent of the number of workers, world size and
/// device. Applied before `normalize`. `Batch::transforms` reports the result.
struct Augment {
  /// Crop window at a random position of the image.
  struct RandomCrop {
    /// Height of the crop in pixels. 0: the height of the image.
    std::int64_t height = 0;
    /// Width of the crop in pixels. 0: the width of the image.
    std::int64_t width = 0;
    /// Pixels of value 0 added on each of the four sides before cropping.
    std::int64_t padding = 0;
  };
  /// Window of random size, shape and position that is scaled to one size, as torchvision's RandomResizedCrop
  /// draws it (Szegedy et al., "Going Deeper with Convolutions", CVPR 2015): bilinear with antialiasing, in
  /// the stored type, with integers rounded to the nearest. Up to 16 bits, integers have the same bytes on
  /// every device.
  struct RandomResizedCrop {
    /// Height of the output in pixels. 0: the height of the image.
    std::int64_t height = 0;
    /// Width of the output in pixels. 0: the width of the image.
    std::int64_t width = 0;
    /// Smallest area of the window as a share of the image's, above 0.
    double min_scale = 0.08;
    /// Largest area of the window as a share of the image's, at most 1.
    double max_scale = 1;
    /// Smallest width / height of the window, above 0.
    double min_ratio = 3.0 / 4;
    /// Largest width / height of the window.
    double max_ratio = 4.0 / 3;
  };
  /// Probability, 0 … 1, that a sample is mirrored left to right.
  double horizontal_flip = 0;
  /// Probability, 0 … 1, that a sample is mirrored top to bottom.
  double vertical_flip = 0;
  /// Random crop of every sample. Unset: the whole image is delivered.
  std::optional<RandomCrop> random_crop = {};
  /// Random resized crop of every sample. Excludes `random_crop`. Unset: samples are not scaled.
  std::optional<RandomResizedCrop> random_resized_crop = {};
};

/// Identifies one delivery of a sample, for random decisions of `DataLoaderOptions::transform`.
struct H5FEED_EXPORT SampleKey {
  std::uint64_t seed = 0;   ///< `DataLoaderOptions::seed`
  std::uint64_t epoch = 0;  ///< Epoch that the sample is delivered in
  std::int64_t sample = 0;  ///< Number of the sample in the whole dataset
  std::int64_t repeat = 0;  ///< Earlier deliveries of its batch with `echo`

  /// Returns 64 random bits, a pure function of the key and of `purpose`, which the caller numbers as it
  /// likes: another purpose gives independent bits.
  std::uint64_t random(std::uint64_t purpose) const noexcept;
  /// Returns a random number in [0, 1), a pure function of the key and of `purpose`.
  double uniform(std::uint64_t purpose) const noexcept {
    return static_cast<double>(random(purpose) >> 11) * 0x1p-53;
  }
};

/// A sample as stored, which `DataLoaderOptions::transform` may change. Borrows its memory.
struct SampleView {
  std::span<std::byte> bytes;           ///< Elements, row-major; aligned to 64 bytes
  DType dtype = DType::u8;              ///< Element type
  std::span<const std::int64_t> shape;  ///< (C,H,W) or (H,W,C), of volumes with D before H; else as stored
  bool channels_last = false;           ///< True if C is last

  /// Returns the elements as T. Throws std::invalid_argument if T does not match `dtype`.
  template <typename T>
  std::span<T> as() const {
    if (dtype_of<T>() != dtype) throw std::invalid_argument("h5feed::SampleView::as: other dtype");
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

}  // namespace h5feed
