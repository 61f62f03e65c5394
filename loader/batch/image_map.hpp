// SPDX-License-Identifier: Apache-2.0
// Maps the stored elements of one sample to the delivered ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "batch/row_kernel.hpp"
#include "h5feed/batch.hpp"

namespace h5feed {

/// Layout of a sample before and after the conversion. Extents in pixels.
struct ImageMap {
  std::ptrdiff_t channels = 1;
  std::ptrdiff_t in_height = 1, in_width = 1, out_height = 1, out_width = 1;
  bool in_last = false;   ///< Stored as (H,W,C), else (C,H,W)
  bool out_last = false;  ///< Delivered as (H,W,C), else (C,H,W)

  explicit ImageMap(const RowKernelSpec& spec)
      : channels(static_cast<std::ptrdiff_t>(spec.channels)),
        in_width(static_cast<std::ptrdiff_t>(spec.pixels)),
        out_width(in_width),
        in_last(spec.channels_last && channels > 1),
        out_last(spec.to_channels_last && channels > 1) {
    if (!spec.crop) return;  // without crop and flip a sample is one long row
    in_height = static_cast<std::ptrdiff_t>(spec.crop->in_height);
    in_width = static_cast<std::ptrdiff_t>(spec.crop->in_width);
    out_height = static_cast<std::ptrdiff_t>(spec.crop->out_height);
    out_width = static_cast<std::ptrdiff_t>(spec.crop->out_width);
  }
};

namespace detail {

/// Output columns [first, last) of a row that have a source pixel; neighbouring output columns are `step`
/// source pixels apart.
struct Columns {
  std::ptrdiff_t first = 0, last = 0;
  std::ptrdiff_t source = 0;  ///< Source column of output column 0; may be outside the image
  std::ptrdiff_t step = 1;
};

/// Returns the columns of any output row for this crop and flip.
inline Columns columns_of(const ImageMap& map, const SampleTransform& transform) noexcept {
  Columns columns;
  if (transform.flip == 0) {
    columns.source = transform.crop_x;
    columns.first = -columns.source;
    columns.last = map.in_width - columns.source;
  } else {
    columns.step = -1;
    columns.source = map.out_width - 1 + transform.crop_x;
    columns.first = columns.source - map.in_width + 1;
    columns.last = columns.source + 1;
  }
  columns.first = std::clamp<std::ptrdiff_t>(columns.first, 0, map.out_width);
  columns.last = std::clamp<std::ptrdiff_t>(columns.last, columns.first, map.out_width);
  return columns;
}

/// Maps one row of an output whose channels are interleaved (H,W,C). `kChannels`: number of channels, or 0 if
/// it is known at run time only.
template <int kChannels, typename Element>
void map_row_last(const ImageMap& map, const Columns& columns, std::ptrdiff_t in_row,
                  std::ptrdiff_t in_channel, std::ptrdiff_t in_step, std::ptrdiff_t out_row,
                  const Element& element) noexcept {
  const std::ptrdiff_t channels = kChannels > 0 ? kChannels : map.channels;
  for (std::ptrdiff_t x = columns.first; x < columns.last; ++x) {
    const std::ptrdiff_t in = in_row + x * in_step;
    const std::ptrdiff_t out = out_row + x * channels;
    for (std::ptrdiff_t c = 0; c < channels; ++c) element(in + c * in_channel, c, out + c);
  }
}

}  // namespace detail

/// Calls `element(source index, channel, output index)` for every delivered element that has a source, and
/// `padding(channel, output index)` for every other.
template <typename Element, typename Padding>
void map_image(const ImageMap& map, const SampleTransform& transform, const Element& element,
               const Padding& padding) noexcept {
  const detail::Columns columns = detail::columns_of(map, transform);
  const std::ptrdiff_t in_pixel = map.in_last ? map.channels : 1;
  const std::ptrdiff_t in_channel = map.in_last ? 1 : map.in_height * map.in_width;
  const std::ptrdiff_t out_pixel = map.out_last ? map.channels : 1;
  const std::ptrdiff_t out_channel = map.out_last ? 1 : map.out_height * map.out_width;
  const std::ptrdiff_t in_step = columns.step * in_pixel;
  for (std::ptrdiff_t y = 0; y < map.out_height; ++y) {
    const std::ptrdiff_t in_y = y + transform.crop_y;
    const bool inside = in_y >= 0 && in_y < map.in_height;
    const std::ptrdiff_t first = inside ? columns.first : map.out_width;
    const std::ptrdiff_t last = inside ? columns.last : map.out_width;
    const std::ptrdiff_t in_row = (in_y * map.in_width + columns.source) * in_pixel;
    const std::ptrdiff_t out_row = y * map.out_width * out_pixel;
    for (std::ptrdiff_t c = 0; c < map.channels; ++c) {
      const std::ptrdiff_t out = out_row + c * out_channel;
      for (std::ptrdiff_t x = 0; x < first; ++x) padding(c, out + x * out_pixel);
      for (std::ptrdiff_t x = last; x < map.out_width; ++x) padding(c, out + x * out_pixel);
    }
    if (!inside) continue;
    if (map.out_last) {
      if (map.channels == 3) {
        detail::map_row_last<3>(map, columns, in_row, in_channel, in_step, out_row, element);
      } else {
        detail::map_row_last<0>(map, columns, in_row, in_channel, in_step, out_row, element);
      }
      continue;
    }
    for (std::ptrdiff_t c = 0; c < map.channels; ++c) {
      const std::ptrdiff_t in = in_row + c * in_channel;
      const std::ptrdiff_t out = out_row + c * out_channel;
      if (in_step == 1) {  // a loop of its own, so that the compiler can vectorize it
        for (std::ptrdiff_t x = first; x < last; ++x) element(in + x, c, out + x);
      } else {
        for (std::ptrdiff_t x = first; x < last; ++x) element(in + x * in_step, c, out + x);
      }
    }
  }
}

}  // namespace h5feed
