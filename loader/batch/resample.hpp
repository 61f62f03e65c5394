// SPDX-License-Identifier: Apache-2.0
// Scales a window of an image, for CPU and GPU: the same bytes on both.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/cuda_macros.hpp"
#include "base/float_bits.hpp"

namespace h5feed {

/// One axis of a bilinear interpolation with antialiasing, as PIL and torchvision define it: the weight of a
/// source pixel falls linearly with its distance from the centre of the output pixel, to 0 at one source
/// pixel, or, if the window is scaled down, at as many source pixels as become one. Weights are integers in
/// units of 1 / (2 · output), so that their sums are exact. Positions count from the start of the window.
struct ResampledAxis {
  std::int64_t extent = 1;  ///< Source pixels of the window
  std::int64_t output = 1;  ///< Output pixels

  /// Weight at distance 0.
  H5FEED_HOST_DEVICE std::int64_t most() const noexcept { return 2 * (extent > output ? extent : output); }
  /// First source pixel of the window with a weight above 0.
  H5FEED_HOST_DEVICE std::int64_t first(std::int64_t at) const noexcept {
    const std::int64_t before = (2 * at + 1) * extent - most() - output;  // below it (2i)·output is outside
    return before < 0 ? 0 : before / (2 * output) + 1;
  }
  /// One past the last source pixel of the window with a weight above 0.
  H5FEED_HOST_DEVICE std::int64_t end(std::int64_t at) const noexcept {
    const std::int64_t behind = (2 * at + 1) * extent + most() - output;  // from it on (2i)·output is outside
    const std::int64_t end = (behind + 2 * output - 1) / (2 * output);
    return end < extent ? end : extent;
  }
  /// Weight of source pixel `i`, from `first(at)` up to, but not including, `end(at)`.
  H5FEED_HOST_DEVICE std::int64_t weight(std::int64_t at, std::int64_t i) const noexcept {
    const std::int64_t distance = (2 * i + 1) * output - (2 * at + 1) * extent;
    return most() - (distance < 0 ? -distance : distance);
  }
  /// Returns a bound of `sum`, also for all smaller windows that become as many output pixels.
  double largest_sum() const noexcept {
    return static_cast<double>(most()) * (static_cast<double>(most()) / static_cast<double>(output) + 2);
  }
  /// Sum of the weights of an output pixel.
  H5FEED_HOST_DEVICE std::int64_t sum(std::int64_t at) const noexcept {
    std::int64_t sum = 0;
    for (std::int64_t i = first(at); i < end(at); ++i) sum += weight(at, i);
    return sum;
  }
};

/// Arithmetic of weighted sums of elements of type T: exact for integers of up to 16 bits, else in float64.
template <typename T>
struct WeightedSum {
  static constexpr bool kExact = std::is_integral_v<T> && sizeof(T) <= 2;
  using Sum = std::conditional_t<kExact, std::int64_t, double>;

  /// Returns `sum + weight · value`, in float64 with two roundings.
  template <typename Value>
  H5FEED_HOST_DEVICE static Sum add(Sum sum, std::int64_t weight, Value value) noexcept {
    if constexpr (kExact) {
      return sum + weight * static_cast<Sum>(value);
    } else {
#ifdef __CUDA_ARCH__
      return __dadd_rn(sum, __dmul_rn(static_cast<double>(weight), as_double(value)));
#else
      return sum + static_cast<double>(weight) * as_double(value);
#endif
    }
  }

  /// Returns `sum / weights` as an element: integers rounded to the nearest, halves up; others rounded twice.
  H5FEED_HOST_DEVICE static T quotient(Sum sum, std::int64_t weights) noexcept {
    if constexpr (kExact) {
      const std::int64_t doubled = 2 * sum + weights;  // rounds halves up, and must round towards −∞
      const std::int64_t whole = doubled / (2 * weights);
      return static_cast<T>(whole * 2 * weights > doubled ? whole - 1 : whole);
    } else {
      const double mean = sum / static_cast<double>(weights);
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(mean < 0 ? mean - 0.5 : mean + 0.5);
      } else if constexpr (std::is_same_v<T, F16>) {
        return to_f16(static_cast<float>(mean));
      } else if constexpr (std::is_same_v<T, BF16>) {
        return to_bf16(static_cast<float>(mean));
      } else {
        return static_cast<T>(mean);
      }
    }
  }

 private:
  template <typename Value>
  H5FEED_HOST_DEVICE static double as_double(Value value) noexcept {
    if constexpr (std::is_same_v<Value, F16> || std::is_same_v<Value, BF16>) {
      return static_cast<double>(to_float(value));
    } else {
      return static_cast<double>(value);
    }
  }
};

}  // namespace h5feed
