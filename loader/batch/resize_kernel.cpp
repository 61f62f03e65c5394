// SPDX-License-Identifier: Apache-2.0
#include "batch/resize_kernel.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/with_type.hpp"
#include "batch/resample.hpp"

namespace h5feed {
namespace {

// The weights of an axis, computed once per image.
class AxisWeights {
 public:
  // The source pixels of one output pixel.
  struct Taps {
    std::int64_t first = 0, count = 0;
    std::size_t weights = 0;  // index of the first weight
    std::int64_t sum = 0;
  };

  void compute(const ResampledAxis& axis) {
    taps_.clear();
    weights_.clear();
    for (std::int64_t at = 0; at < axis.output; ++at) {
      Taps taps{.first = axis.first(at), .weights = weights_.size()};
      taps.count = axis.end(at) - taps.first;
      for (std::int64_t i = taps.first; i < axis.end(at); ++i) {
        weights_.push_back(axis.weight(at, i));
        taps.sum += weights_.back();
      }
      taps_.push_back(taps);
    }
  }

  const std::vector<Taps>& taps() const noexcept { return taps_; }
  const std::int64_t* weights(const Taps& taps) const noexcept { return weights_.data() + taps.weights; }

 private:
  std::vector<Taps> taps_;
  std::vector<std::int64_t> weights_;
};

// Distances between neighbours in an image, in elements.
struct Strides {
  std::int64_t pixel = 1, row = 1, channel = 1;

  Strides(std::int64_t channels, std::int64_t height, std::int64_t width, bool channels_last) noexcept
      : pixel(channels_last ? channels : 1),
        row(width * pixel),
        channel(channels_last ? 1 : height * width) {}
};

template <typename T>
class ResizeKernel final : public RowKernel {
 public:
  ResizeKernel(const RowKernelSpec& spec, std::unique_ptr<const RowKernel> convert)
      : sizes_(*spec.crop),
        channels_(static_cast<std::int64_t>(spec.channels)),
        from_(channels_, pixels(sizes_.in_height), pixels(sizes_.in_width), spec.channels_last),
        to_(channels_, pixels(sizes_.out_height), pixels(sizes_.out_width), spec.channels_last),
        convert_(std::move(convert)) {}

 private:
  using Sum = typename WeightedSum<T>::Sum;

  // Memory of one thread, used again for the next image.
  struct Scratch {
    AxisWeights rows, columns;
    std::vector<Sum> sums;
    ByteBuffer image;
  };

  static std::int64_t pixels(std::uint64_t extent) noexcept { return static_cast<std::int64_t>(extent); }

  void do_run(const std::byte* from, std::byte* to, const SampleTransform& transform) const override {
    thread_local Scratch scratch;
    const std::int64_t out_height = pixels(sizes_.out_height), out_width = pixels(sizes_.out_width);
    scratch.rows.compute({transform.crop_height, out_height});
    scratch.columns.compute({transform.crop_width, out_width});
    scratch.sums.resize(static_cast<std::size_t>(transform.crop_height * out_width));
    scratch.image.resize_discard(static_cast<std::size_t>(channels_ * out_height * out_width) * sizeof(T));
    const std::int64_t window = transform.crop_y * from_.row + transform.crop_x * from_.pixel;
    for (std::int64_t c = 0; c < channels_; ++c) {
      sum_rows(from, window + c * from_.channel, transform.crop_height, scratch);
      sum_columns(c * to_.channel, scratch);
    }
    convert_->run(scratch.image.data(), to,
                  {.flip = transform.flip, .vertical_flip = transform.vertical_flip});
  }

  // Fills `scratch.sums` with the weighted sums along each row of the window, which begins at element
  // `begin`.
  void sum_rows(const std::byte* image, std::int64_t begin, std::int64_t rows, Scratch& scratch) const {
    Sum* sum = scratch.sums.data();
    for (std::int64_t y = 0; y < rows; ++y) {
      for (const AxisWeights::Taps& taps : scratch.columns.taps()) {
        const std::int64_t* const weights = scratch.columns.weights(taps);
        std::int64_t at = begin + y * from_.row + taps.first * from_.pixel;
        Sum total = 0;
        for (std::int64_t i = 0; i < taps.count; ++i, at += from_.pixel) {
          T value;
          std::memcpy(&value, image + at * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
          total = WeightedSum<T>::add(total, weights[i], value);
        }
        *sum++ = total;
      }
    }
  }

  // Adds these sums along the columns, into the channel of `scratch.image` that begins at element `begin`.
  void sum_columns(std::int64_t begin, Scratch& scratch) const {
    const auto out_width = scratch.columns.taps().size();
    auto* const image = reinterpret_cast<T*>(scratch.image.data()) + begin;
    for (std::size_t y = 0; y < scratch.rows.taps().size(); ++y) {
      const AxisWeights::Taps& rows = scratch.rows.taps()[y];
      const std::int64_t* const weights = scratch.rows.weights(rows);
      for (std::size_t x = 0; x < out_width; ++x) {
        const Sum* of_row = scratch.sums.data() + static_cast<std::size_t>(rows.first) * out_width + x;
        Sum total = 0;
        for (std::int64_t i = 0; i < rows.count; ++i, of_row += out_width)
          total = WeightedSum<T>::add(total, weights[i], *of_row);
        image[static_cast<std::int64_t>(y) * to_.row + static_cast<std::int64_t>(x) * to_.pixel] =
            WeightedSum<T>::quotient(total, rows.sum * scratch.columns.taps()[x].sum);
      }
    }
  }

  const CropSizes sizes_;
  const std::int64_t channels_;
  const Strides from_, to_;
  const std::unique_ptr<const RowKernel> convert_;
};

}  // namespace

std::unique_ptr<const RowKernel> make_resize_kernel(const RowKernelSpec& spec) {
  RowKernelSpec rest = spec;
  const CropSizes& sizes = *spec.crop;
  rest.crop = CropSizes{sizes.out_height, sizes.out_width, sizes.out_height, sizes.out_width};
  rest.pixels = sizes.out_height * sizes.out_width;
  std::unique_ptr<const RowKernel> convert = make_row_kernel(rest);
  return with_type_of(spec.from, [&](auto type) -> std::unique_ptr<const RowKernel> {
    return std::make_unique<ResizeKernel<decltype(type)>>(spec, std::move(convert));
  });
}

}  // namespace h5feed
