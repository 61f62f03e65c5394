// The normalize kernels for batches whose layout changes, or whose samples are cropped and flipped. A thread
// gives one run of an output row, 16 bytes of a plane, per tile.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "batch/normalize.hpp"
#include "cuda/divisor.hpp"
#include "cuda/image_layout.hpp"
#include "cuda/runs.hpp"
#include "cuda/tiles.hpp"
#include "cuda/values.hpp"

namespace h5feed::gpu {

/// What the units below work on. Index: of positions in one sample; arithmetic wraps, so that −1 is beyond
/// all extents.
template <typename From, typename To, typename Index>
struct Images {
  using Source = From;
  using Output = To;
  static constexpr int kRun = 16 / static_cast<int>(sizeof(To));  // elements
  static constexpr std::uint32_t kTile = kThreads;                // runs

  /// Extents of one sample, in elements. An "image" of the output has `out_height` rows: a plane of
  /// (N,C,H,W), a whole sample of (N,H,W,C).
  struct Geometry {
    std::int64_t in_sample, out_sample;
    Index in_height, in_width, out_width;
    Index out_row, out_plane;
    Index in_row, in_pixel, in_channel;  ///< steps in the source
  };

  const From* in;
  To* out;
  const SampleTransform* transforms;  ///< null: no crop, no flip
  std::int64_t in_elements;
  std::int64_t runs;  ///< of the batch
  Divisor<Index> runs_per_sample;
  Divisor<Index> runs_per_row;
  Divisor<Index> out_height;
  Geometry geometry;
  bool past_caches;  ///< stores leave the L2 cache to others

  /// `rows`: of a sample's output; `pitch`: output elements of a row that one thread's runs are spread over.
  Images(const From* from, To* to, const SampleTransform* of_samples, const ImageLayout& layout, bool past,
         std::int64_t rows, std::int64_t pitch) noexcept
      : in(from),
        out(to),
        transforms(of_samples),
        in_elements(layout.in_elements()),
        runs(layout.samples * rows * ((pitch + kRun - 1) / kRun)),
        runs_per_sample(static_cast<std::uint64_t>(rows * ((pitch + kRun - 1) / kRun))),
        runs_per_row(static_cast<std::uint64_t>((pitch + kRun - 1) / kRun)),
        out_height(static_cast<std::uint64_t>(layout.out_height)),
        past_caches(past) {
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

  H5FEED_HOST_DEVICE std::int64_t tiles() const noexcept { return (runs + kTile - 1) / kTile; }

  /// One run: the row it is part of, counted in its sample, and the number of elements before it there.
  struct Run {
    std::int64_t sample;
    Index row, first;
  };
  H5FEED_HOST_DEVICE Run run_of(std::int64_t tile, std::uint32_t thread) const noexcept {
    const auto place = place_of(tile * kTile, runs_per_sample);
    const auto [samples, in_sample] = runs_per_sample.split(place.rest + thread);
    const auto [row, run] = runs_per_row.split(in_sample);
    return {place.sample + static_cast<std::int64_t>(samples), row, run * static_cast<Index>(kRun)};
  }

  /// Where output pixel (y, x) comes from: rows and columns at or beyond the source's extents are padding.
  /// With `step` from one output pixel to the next.
  struct Origin {
    Index y, x, step;
  };
  H5FEED_HOST_DEVICE Origin origin(std::int64_t sample, Index y, Index x) const noexcept {
    if (transforms == nullptr) return {y, x, 1};
    const SampleTransform t = transforms[sample];
    // Beyond these bounds all is padding; within them products with extents do not wrap around.
    const Index crop = bounded(t.crop_x);
    if (t.flip == 0) return {y + static_cast<Index>(t.crop_y), x + crop, 1};
    return {y + static_cast<Index>(t.crop_y), geometry.out_width - 1 - x + crop, static_cast<Index>(-1)};
  }

 private:
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

/// (N,H,W,C) of kChannels to (N,C,H,W): a thread takes whole pixels and gives a run of each plane.
template <typename From, typename To, int kChannels>
struct PlanarUnits : Images<From, To, std::uint32_t> {
  using Base = Images<From, To, std::uint32_t>;
  using Base::geometry;
  using Base::kRun;
  static constexpr bool kSharedTable = true;

  PlanarUnits(const From* from, To* to, const SampleTransform* of_samples, const ImageLayout& layout,
              bool past) noexcept
      : Base(from, to, of_samples, layout, past, layout.out_height, layout.out_width) {}

  H5FEED_HOST_DEVICE void operator()(std::int64_t tile, std::uint32_t thread,
                                     const Values<From, To>& values) const noexcept {
    if (tile * Base::kTile + thread >= this->runs) return;
    const auto [sample, row, first] = this->run_of(tile, thread);
    const auto origin = this->origin(sample, row, first);
    const bool backward = origin.step != 1;
    const bool row_inside = origin.y < geometry.in_height;
    // The window of the source that holds the run's pixels. Part of it may lie outside the row, which does
    // no harm while it lies in the batch.
    const std::uint32_t left = backward ? origin.x - (kRun - 1) : origin.x;
    const std::int64_t window = sample * geometry.in_sample +
                                static_cast<std::int64_t>(origin.y) * geometry.in_row +
                                static_cast<std::int64_t>(static_cast<std::int32_t>(left)) * kChannels;
    const bool readable =
        row_inside && window >= 0 && window + kRun * kChannels <= this->in_elements;
    To* const to = this->out + sample * geometry.out_sample + row * geometry.out_row + first;
    const std::uint32_t count = geometry.out_row - first;

    if (row_inside && !readable) {
      edge(sample, origin, values, to, count);
      return;
    }
    Loaded<From, kRun * kChannels> pixels;
    if (readable) pixels = Loaded<From, kRun * kChannels>(this->in + window);
    const std::uint32_t width = row_inside ? geometry.in_width : 0;
    H5FEED_UNROLL
    for (int c = 0; c < kChannels; ++c) {
      To result[kRun];
      H5FEED_UNROLL
      for (int i = 0; i < kRun; ++i) {
        const From forward = pixels[i * kChannels + c];
        const From backward_value = pixels[(kRun - 1 - i) * kChannels + c];
        const bool inside = origin.x + static_cast<std::uint32_t>(i) * origin.step < width;
        result[i] = values(inside ? (backward ? backward_value : forward) : From{},
                           static_cast<std::uint32_t>(c));
      }
      To* const plane = to + static_cast<std::uint32_t>(c) * geometry.out_plane;
      if (count >= kRun) {
        store_run(plane, result, this->past_caches);
      } else {
        store_some(plane, result, count);
      }
    }
  }

 private:
  /// Runs at the very start and end of the batch, element by element.
  H5FEED_HOST_DEVICE void edge(std::int64_t sample, const typename Base::Origin& origin,
                               const Values<From, To>& values, To* to, std::uint32_t count) const noexcept {
    const From* const row =
        this->in + sample * geometry.in_sample + std::int64_t{origin.y} * geometry.in_row;
    for (std::uint32_t i = 0; i < count && i < kRun; ++i) {
      const std::uint32_t x = origin.x + i * origin.step;
      for (std::uint32_t c = 0; c < kChannels; ++c) {
        to[c * geometry.out_plane + i] =
            values(x < geometry.in_width ? row[x * kChannels + c] : From{}, c);
      }
    }
  }
};

/// Any layouts and numbers of channels: a thread gives one run of a row, of one channel where the output is
/// (N,C,H,W), of channels and pixels alike where it is (N,H,W,C).
template <typename From, typename To, typename Index>
struct RowUnits : Images<From, To, Index> {
  using Base = Images<From, To, Index>;
  using Base::geometry;
  using Base::kRun;
  static constexpr bool kSharedTable = sizeof(Index) == 4;

  Divisor<Index> cycle;  ///< channels that an output row has in turn
  bool together;         ///< neighbours in an output row are neighbours in the source, but for a flip

  RowUnits(const From* from, To* to, const SampleTransform* of_samples, const ImageLayout& layout,
           bool past) noexcept
      : Base(from, to, of_samples, layout, past,
             layout.out_height * (layout.out_channels_last ? 1 : layout.channels),
             layout.out_width * (layout.out_channels_last ? layout.channels : 1)),
        cycle(static_cast<std::uint64_t>(layout.out_channels_last ? layout.channels : 1)),
        together(layout.in_channels_last == layout.out_channels_last) {}

  H5FEED_HOST_DEVICE void operator()(std::int64_t tile, std::uint32_t thread,
                                     const Values<From, To>& values) const noexcept {
    if (tile * Base::kTile + thread >= this->runs) return;
    const auto [sample, row, first] = this->run_of(tile, thread);
    const auto [image, y] = this->out_height.split(row);
    auto [x, in_cycle] = cycle.split(first);
    const auto origin = this->origin(sample, y, x);
    const bool row_inside = origin.y < geometry.in_height;
    const Index count = geometry.out_row - first;
    const std::int64_t sample_start = sample * geometry.in_sample;
    To* const to = this->out + sample * geometry.out_sample +
                   static_cast<std::int64_t>(row * geometry.out_row + first);
    To result[kRun];

    if (together && (origin.step == 1 || cycle.value() == 1)) {
      // Elements of the source's row, of which those beyond its width are padding. A window of them may
      // leave the row, but not the batch.
      const Index element = origin.x * cycle.value() + in_cycle;
      const Index left = origin.step == 1 ? element : element - (kRun - 1);
      const std::int64_t window = sample_start +
                                  static_cast<std::int64_t>(image * geometry.in_channel +
                                                            origin.y * geometry.in_row) +
                                  static_cast<std::make_signed_t<Index>>(left);
      if (!row_inside || (window >= 0 && window + kRun <= this->in_elements)) {
        Loaded<From, kRun> elements;
        if (row_inside) elements = Loaded<From, kRun>(this->in + window);
        const Index in_row = row_inside ? geometry.in_width * cycle.value() : 0;
        auto channel = static_cast<std::uint32_t>(image + in_cycle);
        H5FEED_UNROLL
        for (int i = 0; i < kRun; ++i) {
          const From loaded = origin.step == 1 ? elements[i] : elements[kRun - 1 - i];
          const bool inside = element + static_cast<Index>(i) * origin.step < in_row;
          result[i] = values(inside ? loaded : From{}, channel);
          ++in_cycle;
          ++channel;
          if (in_cycle == cycle.value()) {
            in_cycle = 0;
            channel = static_cast<std::uint32_t>(image);
          }
        }
        finish(to, result, count);
        return;
      }
    }
    const From* const from = this->in + sample_start;
    const Index next_pixel = origin.step * geometry.in_pixel - cycle.value() * geometry.in_channel;
    Index at = origin.y * geometry.in_row + origin.x * geometry.in_pixel +
               (image + in_cycle) * geometry.in_channel;
    Index column = origin.x;
    H5FEED_UNROLL
    for (int i = 0; i < kRun; ++i) {
      const From value = row_inside && column < geometry.in_width ? from[at] : From{};
      result[i] = values(value, static_cast<std::uint32_t>(image + in_cycle));
      at += geometry.in_channel;
      if (++in_cycle == cycle.value()) {
        in_cycle = 0;
        column += origin.step;
        at += next_pixel;
      }
    }
    finish(to, result, count);
  }

 private:
  H5FEED_HOST_DEVICE void finish(To* to, const To (&result)[kRun], Index count) const noexcept {
    if (count >= kRun) {
      store_run(to, result, this->past_caches);
    } else {
      store_some(to, result, static_cast<std::uint32_t>(count));
    }
  }
};

}  // namespace h5feed::gpu
