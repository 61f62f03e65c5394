// SPDX-License-Identifier: Apache-2.0
// Kernel for batches of which a window of each sample is scaled to the output.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/cuda_macros.hpp"
#include "batch/resample.hpp"
#include "cuda/kernels/normalize.hpp"
#include "cuda/kernels/tiles.hpp"
#include "cuda/kernels/values.hpp"

namespace h5feed::gpu {

/// Scales the window of each sample's transform to the output in the source type (batch/resample.hpp), flips
/// it, and converts the result. Each thread computes one element: it reads all of its source pixels.
template <typename From, typename To>
struct ResizeUnits {
  using Source = From;
  using Output = To;
  static constexpr bool kSharedTable = false;

  const From* in;
  const std::byte* const* rows;  ///< Address of each sample; null: they follow each other at `in`
  To* out;
  const SampleTransform* transforms;  ///< One per sample
  ImageLayout layout;

  ResizeUnits(const NormalizeJob& job) noexcept  // NOLINT(google-explicit-constructor)
      : in(static_cast<const From*>(job.in)),
        rows(job.rows),
        out(static_cast<To*>(job.out)),
        transforms(job.transforms),
        layout(job.layout) {}

  /// Number of tiles of the batch.
  H5FEED_HOST_DEVICE std::int64_t tiles() const noexcept {
    return (layout.samples * sample_elements() + kThreads - 1) / kThreads;
  }

  /// Computes the element of a tile that belongs to one thread.
  H5FEED_HOST_DEVICE void operator()(std::int64_t tile, std::uint32_t thread,
                                     const Values<From, To>& values) const noexcept {
    const std::int64_t element = tile * kThreads + thread;
    const std::int64_t sample = element / sample_elements();
    if (sample >= layout.samples) return;
    const Pixel pixel = pixel_of(element % sample_elements());
    const SampleTransform& transform = transforms[sample];
    const From* const image = rows != nullptr
                                  ? reinterpret_cast<const From*>(rows[sample])
                                  : in + sample * layout.channels * layout.in_height * layout.in_width;
    out[element] = values(scaled(image, transform, pixel), static_cast<std::uint32_t>(pixel.channel));
  }

 private:
  /// A pixel of one channel of the output.
  struct Pixel {
    std::int64_t channel, y, x;
  };

  H5FEED_HOST_DEVICE std::int64_t sample_elements() const noexcept {
    return layout.channels * layout.out_height * layout.out_width;
  }

  H5FEED_HOST_DEVICE Pixel pixel_of(std::int64_t element) const noexcept {
    if (layout.out_channels_last) {
      const std::int64_t pixel = element / layout.channels;
      return {element % layout.channels, pixel / layout.out_width, pixel % layout.out_width};
    }
    const std::int64_t row = element / layout.out_width;
    return {row / layout.out_height, row % layout.out_height, element % layout.out_width};
  }

  /// Returns the interpolated value, summed up in the same order as on the CPU.
  H5FEED_HOST_DEVICE From scaled(const From* image, const SampleTransform& transform,
                                 const Pixel& pixel) const noexcept {
    const ResampledAxis vertical{transform.crop_height, layout.out_height};
    const ResampledAxis horizontal{transform.crop_width, layout.out_width};
    const std::int64_t to_y = transform.vertical_flip != 0 ? layout.out_height - 1 - pixel.y : pixel.y;
    const std::int64_t to_x = transform.flip != 0 ? layout.out_width - 1 - pixel.x : pixel.x;
    const std::int64_t step = layout.in_channels_last ? layout.channels : 1;
    const std::int64_t plane =
        layout.in_channels_last ? pixel.channel : pixel.channel * layout.in_height * layout.in_width;
    typename WeightedSum<From>::Sum total = 0;
    for (std::int64_t i = vertical.first(to_y); i < vertical.end(to_y); ++i) {
      const std::int64_t row = (transform.crop_y + i) * layout.in_width + transform.crop_x;
      typename WeightedSum<From>::Sum sum = 0;
      for (std::int64_t k = horizontal.first(to_x); k < horizontal.end(to_x); ++k)
        sum = WeightedSum<From>::add(sum, horizontal.weight(to_x, k), image[plane + (row + k) * step]);
      total = WeightedSum<From>::add(total, vertical.weight(to_y, i), sum);
    }
    return WeightedSum<From>::quotient(total, vertical.sum(to_y) * horizontal.sum(to_x));
  }
};

}  // namespace h5feed::gpu
