// The arithmetic and the index logic of the normalize kernels: plain C++, run on the GPU by normalize.cu
// and on the CPU by the tests. A kernel is a set of independent units, each one run of neighbouring
// output elements, 16 bytes long.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/float_bits.hpp"
#include "base/host_device.hpp"
#include "cuda/image_layout.hpp"
#include "cuda/runs.hpp"

namespace h5feed::gpu {

/// out = x · factor + offset, one a channel, for every source but uint8.
struct Coefficient {
  float factor;
  float offset;
};

H5FEED_HOST_DEVICE inline float to_float(std::uint16_t value) noexcept { return static_cast<float>(value); }
H5FEED_HOST_DEVICE inline float to_float(std::int16_t value) noexcept { return static_cast<float>(value); }
H5FEED_HOST_DEVICE inline float to_float(float value) noexcept { return value; }

template <typename To>
H5FEED_HOST_DEVICE To rounded(float value) noexcept;
template <>
H5FEED_HOST_DEVICE inline float rounded<float>(float value) noexcept {
  return value;
}
template <>
H5FEED_HOST_DEVICE inline F16 rounded<F16>(float value) noexcept {
  return to_f16(value);
}
template <>
H5FEED_HOST_DEVICE inline BF16 rounded<BF16>(float value) noexcept {
  return to_bf16(value);
}

/// From a source value to an output value of channel c. One rounding of factor, offset, and the fused
/// multiply-add each: |error| ≤ 2^-23 · (|x·scale| + |mean|) / std in float32, unless the result is
/// subnormal; 16-bit outputs add their own rounding.
template <typename From, typename To>
struct Values {
  using Entry = Coefficient;
  static constexpr std::int64_t kEntriesPerChannel = 1;
  const Entry* coefficients;

  H5FEED_HOST_DEVICE To operator()(From x, std::int64_t channel) const noexcept {
    const Coefficient k = coefficients[channel];
#ifdef __CUDA_ARCH__
    return rounded<To>(__fmaf_rn(to_float(x), k.factor, k.offset));
#else
    return rounded<To>(std::fma(to_float(x), k.factor, k.offset));
#endif
  }
};

/// uint8 by table: entry [channel · 256 + x] was rounded once, from float64.
template <typename To>
struct Values<std::uint8_t, To> {
  using Entry = To;
  static constexpr std::int64_t kEntriesPerChannel = 256;
  const Entry* coefficients;

  H5FEED_HOST_DEVICE To operator()(std::uint8_t x, std::int64_t channel) const noexcept {
    return coefficients[channel * 256 + x];
  }
};

struct Quotient {
  std::int64_t whole;
  std::int64_t rest;
};

/// Both not negative, b > 0. The GPU divides 32-bit numbers several times faster than 64-bit ones.
H5FEED_HOST_DEVICE inline Quotient divide(std::int64_t a, std::int64_t b) noexcept {
  if ((a | b) >> 32 == 0) {
    const auto small_a = static_cast<std::uint32_t>(a);
    const auto small_b = static_cast<std::uint32_t>(b);
    return {small_a / small_b, small_a % small_b};
  }
  return {a / b, a % b};
}

/// What both kinds of units work on. `samples` may be null: no crop, no flip.
template <typename From, typename To>
struct Images {
  using Source = From;
  using Output = To;
  static constexpr int kRun = 16 / static_cast<int>(sizeof(To));  // elements

  const From* in;
  To* out;
  const SampleTransform* samples;
  ImageLayout layout;
  bool past_caches;  ///< stores leave the L2 cache to others

  H5FEED_HOST_DEVICE SampleTransform transform(std::int64_t sample) const noexcept {
    return samples == nullptr ? SampleTransform{} : samples[sample];
  }

  /// One output element, wherever its source lies.
  H5FEED_HOST_DEVICE From source(std::int64_t sample, std::int64_t channel, std::int64_t y, std::int64_t x,
                                 const SampleTransform& t) const noexcept {
    const std::int64_t sy = y + t.crop_y;
    const std::int64_t sx = (t.flip != 0 ? layout.out_width - 1 - x : x) + t.crop_x;
    if (sy < 0 || sy >= layout.in_height || sx < 0 || sx >= layout.in_width) return From{};
    return in[layout.in_channels_last
                  ? ((sample * layout.in_height + sy) * layout.in_width + sx) * layout.channels + channel
                  : ((sample * layout.channels + channel) * layout.in_height + sy) * layout.in_width + sx];
  }
};

/// Output (N,C,H,W): a unit is a run of one row, of all channels where they come interleaved, else of one.
/// kInterleaved: channels of an (N,H,W,C) source, 0 for a number known at run time only; 1 for an (N,C,H,W)
/// source.
template <typename From, typename To, int kInterleaved>
struct PlanarUnits : Images<From, To> {
  using Base = Images<From, To>;
  using Base::kRun;
  using Base::layout;
  static constexpr bool kPlanes = kInterleaved == 1;  // every plane is an image of one channel

  H5FEED_HOST_DEVICE std::int64_t runs_per_row() const noexcept {
    return (layout.out_width + kRun - 1) / kRun;
  }

  H5FEED_HOST_DEVICE std::int64_t size() const noexcept {
    return layout.samples * (kPlanes ? layout.channels : 1) * layout.out_height * runs_per_row();
  }

  H5FEED_HOST_DEVICE void operator()(std::int64_t unit, const Values<From, To>& values) const noexcept {
    const auto [row, run] = divide(unit, runs_per_row());
    const auto [image, y] = divide(row, layout.out_height);
    const auto [sample, first_channel] = kPlanes ? divide(image, layout.channels) : Quotient{image, 0};
    const SampleTransform t = this->transform(sample);
    const std::int64_t x = run * kRun;
    const std::int64_t left = layout.out_width - x;
    const std::int64_t count = left < kRun ? left : kRun;
    To* const to = this->out +
                   ((sample * layout.channels + first_channel) * layout.out_height + y) * layout.out_width +
                   x;
    const std::int64_t plane = layout.out_height * layout.out_width;

    if constexpr (kInterleaved > 0) {
      const std::int64_t sy = y + t.crop_y;
      const std::int64_t sx = (t.flip != 0 ? layout.out_width - x - count : x) + t.crop_x;
      if (count == kRun && sy >= 0 && sy < layout.in_height && sx >= 0 && sx + kRun <= layout.in_width) {
        const Loaded<From, kRun * kInterleaved> pixels(
            this->in + ((image * layout.in_height + sy) * layout.in_width + sx) * kInterleaved);
        H5FEED_UNROLL
        for (int c = 0; c < kInterleaved; ++c) {
          To result[kRun];
          H5FEED_UNROLL
          for (int i = 0; i < kRun; ++i) {
            const From forward = pixels[i * kInterleaved + c];
            const From backward = pixels[(kRun - 1 - i) * kInterleaved + c];
            result[i] = values(t.flip != 0 ? backward : forward, first_channel + c);
          }
          store_run(to + c * plane, result, this->past_caches);
        }
        return;
      }
    }
    const std::int64_t channels = kPlanes ? 1 : layout.channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t i = 0; i < count; ++i) {
        to[c * plane + i] = values(this->source(sample, first_channel + c, y, x + i, t), first_channel + c);
      }
    }
  }
};

/// Output (N,H,W,C): a unit is a run of one row, channels and pixels alike.
template <typename From, typename To>
struct InterleavedUnits : Images<From, To> {
  using Base = Images<From, To>;
  using Base::kRun;
  using Base::layout;

  H5FEED_HOST_DEVICE std::int64_t row_elements() const noexcept { return layout.out_width * layout.channels; }

  H5FEED_HOST_DEVICE std::int64_t runs_per_row() const noexcept { return (row_elements() + kRun - 1) / kRun; }

  H5FEED_HOST_DEVICE std::int64_t size() const noexcept {
    return layout.samples * layout.out_height * runs_per_row();
  }

  H5FEED_HOST_DEVICE void operator()(std::int64_t unit, const Values<From, To>& values) const noexcept {
    const auto [row, run] = divide(unit, runs_per_row());
    const auto [sample, y] = divide(row, layout.out_height);
    const SampleTransform t = this->transform(sample);
    const std::int64_t first = run * kRun;
    const std::int64_t left = row_elements() - first;
    const std::int64_t count = left < kRun ? left : kRun;
    To* const to = this->out + row * row_elements() + first;
    auto [x, channel] = divide(first, layout.channels);

    const std::int64_t sy = y + t.crop_y;
    const std::int64_t skipped = t.crop_x * layout.channels;
    const bool inside = sy >= 0 && sy < layout.in_height && first + skipped >= 0 &&
                        first + skipped + kRun <= layout.in_width * layout.channels;
    if (count == kRun && layout.in_channels_last && t.flip == 0 && inside) {
      const Loaded<From, kRun> elements(
          this->in + (sample * layout.in_height + sy) * layout.in_width * layout.channels + first + skipped);
      To result[kRun];
      H5FEED_UNROLL
      for (int i = 0; i < kRun; ++i) {
        result[i] = values(elements[i], channel);
        channel = channel + 1 == layout.channels ? 0 : channel + 1;
      }
      store_run(to, result, this->past_caches);
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = values(this->source(sample, channel, y, x, t), channel);
      if (++channel == layout.channels) {
        channel = 0;
        ++x;
      }
    }
  }
};

}  // namespace h5feed::gpu
