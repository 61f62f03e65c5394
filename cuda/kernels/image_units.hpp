// SPDX-License-Identifier: Apache-2.0
// Kernels for batches whose layout changes or whose samples are cropped and flipped: their common base, and
// the kernel for interleaved images of 3 or 4 channels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cuda_macros.hpp"
#include "batch/normalize.hpp"
#include "cuda/kernels/divisor.hpp"
#include "cuda/kernels/image_layout.hpp"
#include "cuda/kernels/normalize.hpp"
#include "cuda/kernels/runs.hpp"
#include "cuda/kernels/tiles.hpp"
#include "cuda/kernels/values.hpp"

namespace h5feed::gpu {

/// Common base of the image kernels. `Index`: type of positions within one sample, unsigned; arithmetic
/// wraps, so that −1 exceeds all extents. The samples of the source follow each other at `in`, or lie where
/// `rows` says.
template <typename From, typename To, typename Index>
struct Images {
  using Source = From;
  using Output = To;
  static constexpr std::uint32_t kRun = 16 / sizeof(To);  // elements of one 16-byte store

  /// Extents of one sample, in elements. An "image" of the output has `out_height` rows: a plane of
  /// (N,C,H,W), a whole sample of (N,H,W,C).
  struct Geometry {
    std::int64_t in_sample, out_sample;
    Index in_height, in_width, out_width;
    Index out_row, out_plane;
    Index in_row, in_pixel, in_channel;  ///< Strides in the source
  };

  const From* in;
  const std::byte* const* rows;  ///< Address of each sample; null: they follow each other at `in`
  To* out;
  const SampleTransform* transforms;  ///< One per sample; null: no crop, no flip
  std::int64_t in_elements;
  /// Items of the batch. An item is a part of an output row; a thread processes one per tile.
  std::int64_t items;
  Divisor<Index> items_per_sample;
  Divisor<Index> items_per_row;
  Divisor<Index> out_height;
  Geometry geometry;
  bool past_caches;  ///< Use streaming stores, which leave the L2 cache to other data

  /// A sample of the output consists of `out_rows` rows of `pitch` elements. An item has up to `runs` runs of
  /// 16 bytes, spaced by the number of items of a row, so that neighbouring threads store neighbouring runs.
  /// `layout` may describe the images of `job` in another way.
  Images(const NormalizeJob& job, const ImageLayout& layout, std::int64_t out_rows, std::int64_t pitch,
         std::int64_t runs) noexcept
      : in(static_cast<const From*>(job.in)),
        rows(job.rows),
        out(static_cast<To*>(job.out)),
        transforms(job.transforms),
        in_elements(layout.in_elements()),
        items(layout.samples * out_rows * items_of(pitch, runs)),
        items_per_sample(static_cast<std::uint64_t>(out_rows * items_of(pitch, runs))),
        items_per_row(static_cast<std::uint64_t>(items_of(pitch, runs))),
        out_height(static_cast<std::uint64_t>(layout.out_height)),
        past_caches(job.past_caches) {
    const auto index = [](std::int64_t value) { return static_cast<Index>(value); };
    const std::int64_t in_plane = layout.in_height * layout.in_width;
    geometry.in_sample = in_plane * layout.channels;
    geometry.out_sample = layout.out_height * layout.out_width * layout.channels;
    geometry.in_height = index(layout.in_height);
    geometry.in_width = index(layout.in_width);
    geometry.out_width = index(layout.out_width);
    geometry.out_row = index(pitch);
    geometry.out_plane = index(layout.out_height * layout.out_width);
    geometry.in_pixel = index(layout.in_channels_last ? layout.channels : 1);
    geometry.in_channel = index(layout.in_channels_last ? 1 : in_plane);
    geometry.in_row = geometry.in_width * geometry.in_pixel;
  }

  /// Number of tiles of the batch.
  H5FEED_HOST_DEVICE std::int64_t tiles() const noexcept { return (items + kThreads - 1) / kThreads; }

  /// A part of an output row.
  struct Item {
    std::int64_t sample;
    Index row;    ///< Row within the sample
    Index first;  ///< First element within the row
  };
  /// Returns the item that a thread processes in a tile.
  H5FEED_HOST_DEVICE Item item_of(std::int64_t tile, std::uint32_t thread) const noexcept {
    const auto place = place_of(tile * kThreads, items_per_sample);
    const auto [samples, in_sample] = items_per_sample.split(place.rest + thread);
    const auto [row, item] = items_per_row.split(in_sample);
    return {place.sample + static_cast<std::int64_t>(samples), row, item * Index{kRun}};
  }

  /// The source of one sample. Elements from `begin` up to, but not including, `end` can be read, counted
  /// from its first one: all samples of the batch if they follow each other, else those of the sample itself.
  struct Sample {
    const From* first;
    std::int64_t begin, end;
  };
  H5FEED_HOST_DEVICE Sample sample_at(std::int64_t sample) const noexcept {
    if (rows != nullptr) return {reinterpret_cast<const From*>(rows[sample]), 0, geometry.in_sample};
    const std::int64_t offset = sample * geometry.in_sample;
    return {in + offset, -offset, in_elements - offset};
  }

  /// Source of the first pixel of an output row, and the step from one output pixel to the next. Rows and
  /// columns at or beyond the extents of the source are padding.
  struct Origin {
    Index y, x, step;
  };
  /// Returns the source of output row `y` of a sample.
  H5FEED_HOST_DEVICE Origin origin(std::int64_t sample, Index y) const noexcept {
    if (transforms == nullptr) return {y, 0, 1};
    const SampleTransform t = transforms[sample];
    // Beyond these bounds everything is padding; within them products with extents do not wrap.
    const Index crop = bounded(t.crop_x);
    if (t.vertical_flip != 0) y = out_height.value() - 1 - y;
    if (t.flip == 0) return {y + static_cast<Index>(t.crop_y), crop, 1};
    return {y + static_cast<Index>(t.crop_y), geometry.out_width - 1 + crop, static_cast<Index>(-1)};
  }

  /// Stores a run, or its first `count` elements if the row ends within it.
  H5FEED_HOST_DEVICE void store(To* to, const To (&run)[kRun], Index count) const noexcept {
    if (count >= kRun) {
      store_run(to, run, past_caches);
    } else {
      store_some(to, run, static_cast<std::uint32_t>(count));
    }
  }

 private:
  static std::int64_t items_of(std::int64_t pitch, std::int64_t runs) noexcept {
    return (pitch + kRun * runs - 1) / (kRun * runs);
  }

  H5FEED_HOST_DEVICE Index bounded(std::int32_t crop) const noexcept {
    if (crop < 0) {
      const Index most = geometry.out_width;
      const Index left = Index{0} - static_cast<Index>(crop);
      return Index{0} - (left < most ? left : most);
    }
    const auto right = static_cast<Index>(crop);
    return right < geometry.in_width ? right : geometry.in_width;
  }
};

/// Converts (N,H,W,C) with kChannels channels to (N,C,H,W). A thread loads whole pixels and stores one run
/// per plane.
template <typename From, typename To, std::uint32_t kChannels>
struct PlanarUnits : Images<From, To, std::uint32_t> {
  using Base = Images<From, To, std::uint32_t>;
  using Base::geometry;
  using Base::kRun;
  static constexpr bool kSharedTable = true;

  PlanarUnits(const NormalizeJob& job, const ImageLayout& layout) noexcept
      : Base(job, layout, layout.out_height, layout.out_width, 1) {}

  H5FEED_HOST_DEVICE void operator()(std::int64_t tile, std::uint32_t thread,
                                     const Values<From, To>& values) const noexcept {
    if (tile * kThreads + thread >= this->items) return;
    const auto [sample, row, first] = this->item_of(tile, thread);
    const auto origin = this->origin(sample, row);
    const std::uint32_t start = origin.x + first * origin.step;
    const bool backward = origin.step != 1;
    const bool row_inside = origin.y < geometry.in_height;
    const auto source = this->sample_at(sample);
    // The source window with the pixels of the run. Part of it may be outside the row, which does no harm
    // while it can be read.
    const std::uint32_t left = backward ? start - (kRun - 1) : start;
    const std::int64_t window = static_cast<std::int64_t>(origin.y) * geometry.in_row +
                                static_cast<std::int64_t>(static_cast<std::int32_t>(left)) * kChannels;
    const bool readable = row_inside && window >= source.begin && window + kRun * kChannels <= source.end;
    To* const to = this->out + sample * geometry.out_sample + row * geometry.out_row + first;
    const std::uint32_t count = geometry.out_row - first;

    if (row_inside && !readable) {
      edge(source.first + std::int64_t{origin.y} * geometry.in_row, start, origin.step, values, to, count);
      return;
    }
    Loaded<From, kRun * kChannels> pixels;
    if (readable) pixels = Loaded<From, kRun * kChannels>(source.first + window);
    const std::uint32_t width = row_inside ? geometry.in_width : 0;
    H5FEED_UNROLL
    for (std::uint32_t c = 0; c < kChannels; ++c) {
      To result[kRun];
      H5FEED_UNROLL
      for (std::uint32_t i = 0; i < kRun; ++i) {
        const From forward = pixels[i * kChannels + c];
        const From backward_value = pixels[(kRun - 1 - i) * kChannels + c];
        const bool inside = start + i * origin.step < width;
        result[i] = values(inside ? (backward ? backward_value : forward) : From{}, c);
      }
      this->store(to + c * geometry.out_plane, result, count);
    }
  }

 private:
  /// Converts a run at the very start or end of what can be read element by element. `row`: the source row;
  /// `x`: the source column of the first pixel.
  H5FEED_HOST_DEVICE void edge(const From* row, std::uint32_t x, std::uint32_t step,
                               const Values<From, To>& values, To* to, std::uint32_t count) const noexcept {
    for (std::uint32_t i = 0; i < count && i < kRun; ++i) {
      for (std::uint32_t c = 0; c < kChannels; ++c) {
        to[c * geometry.out_plane + i] = values(x < geometry.in_width ? row[x * kChannels + c] : From{}, c);
      }
      x += step;
    }
  }
};

}  // namespace h5feed::gpu
