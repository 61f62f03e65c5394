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

}  // namespace detail

/// Delivered elements of one channel with equal distances. Indices count elements from the begin of the
/// sample; `source` and `step` have no meaning if the elements have no source.
struct ElementRun {
  std::ptrdiff_t channel = 0;
  std::ptrdiff_t source = 0;       ///< Index of the first stored element
  std::ptrdiff_t source_step = 0;  ///< Distance from one stored element to the next; negative if flipped
  std::ptrdiff_t output = 0;       ///< Index of the first delivered element
  std::ptrdiff_t output_step = 1;  ///< Distance from one delivered element to the next
  std::ptrdiff_t count = 0;
};

/// Calls `convert(run)` for runs that together hold each delivered element that has a source, and
/// `pad(run)` for runs of all others.
template <typename Convert, typename Pad>
void for_each_run(const ImageMap& map, const SampleTransform& transform, const Convert& convert,
                  const Pad& pad) noexcept {
  const detail::Columns columns = detail::columns_of(map, transform);
  const std::ptrdiff_t in_pixel = map.in_last ? map.channels : 1;
  const std::ptrdiff_t in_channel = map.in_last ? 1 : map.in_height * map.in_width;
  const std::ptrdiff_t out_pixel = map.out_last ? map.channels : 1;
  const std::ptrdiff_t out_channel = map.out_last ? 1 : map.out_height * map.out_width;
  // Channels that are interleaved on a side are converted one after the other; short stretches stay in the
  // cache.
  constexpr std::ptrdiff_t kStretch = 512;
  const std::ptrdiff_t stretch =
      map.in_last || map.out_last ? kStretch : std::max<std::ptrdiff_t>(1, map.out_width);
  for (std::ptrdiff_t y = 0; y < map.out_height; ++y) {
    const std::ptrdiff_t in_y =
        (transform.vertical_flip == 0 ? y : map.out_height - 1 - y) + transform.crop_y;
    const bool inside = in_y >= 0 && in_y < map.in_height;
    const std::ptrdiff_t first = inside ? columns.first : map.out_width;
    const std::ptrdiff_t last = inside ? columns.last : map.out_width;
    const std::ptrdiff_t in_row = (in_y * map.in_width + columns.source) * in_pixel;
    const std::ptrdiff_t out_row = y * map.out_width * out_pixel;
    for (std::ptrdiff_t begin = 0; begin < map.out_width; begin += stretch) {
      const std::ptrdiff_t end = std::min(begin + stretch, map.out_width);
      for (std::ptrdiff_t c = 0; c < map.channels; ++c) {
        ElementRun run{.channel = c, .source_step = columns.step * in_pixel, .output_step = out_pixel};
        const auto take = [&](std::ptrdiff_t from, std::ptrdiff_t to) {
          run.source = in_row + c * in_channel + from * run.source_step;
          run.output = out_row + c * out_channel + from * out_pixel;
          run.count = to - from;
          return run.count > 0;
        };
        if (take(begin, std::min(end, first))) pad(run);
        if (take(std::max(begin, first), std::min(end, last))) convert(run);
        if (take(std::max(begin, last), end)) pad(run);
      }
    }
  }
}

}  // namespace h5feed
