// SPDX-License-Identifier: Apache-2.0
// Kernel for all batches that the faster ones cannot process: any layout, number of channels, crop and flip.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/cuda_macros.hpp"
#include "cuda/kernels/image_units.hpp"

namespace h5feed::gpu {

/// Each thread stores up to four runs of one output row, which share the computations of that row. An output
/// row has one channel if the output is (N,C,H,W), interleaved channels if it is (N,H,W,C).
template <typename From, typename To, typename Index>
struct RowUnits : Images<From, To, Index> {
  using Base = Images<From, To, Index>;
  using Base::geometry;
  using Base::kRun;
  static constexpr bool kSharedTable = sizeof(Index) == 4;

  Divisor<Index> cycle;  ///< Divides by the number of channels interleaved in an output row
  bool together;         ///< Neighbours in an output row are neighbours in the source, in reverse if flipped

  RowUnits(const NormalizeJob& job, const ImageLayout& layout) noexcept
      : Base(job, layout, layout.out_height * (layout.out_channels_last ? 1 : layout.channels),
             layout.out_width * (layout.out_channels_last ? layout.channels : 1), 4),
        cycle(static_cast<std::uint64_t>(layout.out_channels_last ? layout.channels : 1)),
        together(layout.in_channels_last == layout.out_channels_last) {}

  H5FEED_HOST_DEVICE void operator()(std::int64_t tile, std::uint32_t thread,
                                     const Values<From, To>& values) const noexcept {
    if (tile * kThreads + thread >= this->items) return;
    const auto [sample, row, item] = this->item_of(tile, thread);
    const auto [image, y] = this->out_height.split(row);
    const auto origin = this->origin(sample, y);
    const Row at{this->sample_at(sample),
                 image * geometry.in_channel + origin.y * geometry.in_row,
                 origin.y < geometry.in_height ? geometry.in_width : 0,
                 origin.x,
                 origin.step,
                 image};
    To* const to =
        this->out + sample * geometry.out_sample + static_cast<std::int64_t>(row * geometry.out_row);
    for (Index first = item; first < geometry.out_row; first += this->items_per_row.value() * Index{kRun}) {
      To result[kRun];
      if (!from_window(at, first, values, result)) by_element(at, first, values, result);
      this->store(to + first, result, geometry.out_row - first);
    }
  }

 private:
  struct Row {
    typename Base::Sample source;  ///< The sample
    Index start;                   ///< Offset of the source row and channel in the sample
    Index width;                   ///< Width of the source in pixels; 0: the row is padding
    Index x, step;                 ///< See `Origin`
    /// Output plane, hence the first channel, for (N,C,H,W); 0 for (N,H,W,C).
    Index image;
  };

  /// Converts a run whose elements are contiguous in the source, forward or backward. Part of this window may
  /// be outside the row and hence padding, but not outside of what can be read. Otherwise returns false and
  /// does nothing.
  H5FEED_HOST_DEVICE bool from_window(const Row& row, Index first, const Values<From, To>& values,
                                      To (&result)[kRun]) const noexcept {
    const bool forward = row.step == 1;
    if (!together || !(forward || cycle.value() == 1)) return false;
    const Index element = row.x * cycle.value() + first * row.step;
    const Index left = forward ? element : element - (kRun - 1);
    const std::int64_t window =
        static_cast<std::int64_t>(row.start) + static_cast<std::make_signed_t<Index>>(left);
    if (row.width > 0 && (window < row.source.begin || window + kRun > row.source.end)) return false;
    Loaded<From, kRun> elements;
    if (row.width > 0) elements = Loaded<From, kRun>(row.source.first + window);
    const Index in_row = row.width * cycle.value();
    Index in_cycle = cycle.split(first).rest;
    H5FEED_UNROLL
    for (std::uint32_t i = 0; i < kRun; ++i) {
      const From loaded = forward ? elements[i] : elements[kRun - 1 - i];
      const bool inside = element + Index{i} * row.step < in_row;
      result[i] = values(inside ? loaded : From{}, static_cast<std::uint32_t>(row.image + in_cycle));
      if (++in_cycle == cycle.value()) in_cycle = 0;
    }
    return true;
  }

  H5FEED_HOST_DEVICE void by_element(const Row& row, Index first, const Values<From, To>& values,
                                     To (&result)[kRun]) const noexcept {
    auto [x, in_cycle] = cycle.split(first);
    const From* const from = row.source.first;
    const Index next_pixel = row.step * geometry.in_pixel - cycle.value() * geometry.in_channel;
    Index column = row.x + x * row.step;
    Index at = row.start + column * geometry.in_pixel + in_cycle * geometry.in_channel;
    H5FEED_UNROLL
    for (std::uint32_t i = 0; i < kRun; ++i) {
      // Loads unconditionally, the first element of the sample if need be: a branch per element is slower.
      const bool inside = column < row.width;
      const From loaded = from[inside ? at : 0];
      result[i] = values(inside ? loaded : From{}, static_cast<std::uint32_t>(row.image + in_cycle));
      at += geometry.in_channel;
      if (++in_cycle == cycle.value()) {
        in_cycle = 0;
        column += row.step;
        at += next_pixel;
      }
    }
  }
};

}  // namespace h5feed::gpu
