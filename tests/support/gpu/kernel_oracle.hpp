// SPDX-License-Identifier: Apache-2.0
// Runs the units of the normalize kernel on the CPU, and computes the expected results with the simplest
// code.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "batch/normalize.hpp"
#include "cuda/kernels/normalize.hpp"
#include "cuda/kernels/normalize_dispatch.hpp"

namespace h5feed::test {

/// Runs all threads of a grid of three blocks, in order. Returns false if the types are not supported.
inline bool run_on_cpu(const gpu::NormalizeJob& job) {
  return gpu::with_units(job, [&](const auto& units) {
    using Units = std::remove_cvref_t<decltype(units)>;
    using Table = gpu::Values<typename Units::Source, typename Units::Output>;
    const Table values{static_cast<const typename Table::Entry*>(job.coefficients)};
    constexpr std::int64_t kBlocks = 3;
    for (std::int64_t block = 0; block < kBlocks; ++block) {
      for (std::uint32_t thread = 0; thread < gpu::kThreads; ++thread) {
        gpu::run_thread(units, values, block, kBlocks, thread);
      }
    }
  });
}

/// Returns how much the result for a source other than uint8 may differ from the exact one: the bound in
/// float32, plus half the spacing of a 16-bit type around the result.
inline double error_bound(const NormalizeParameters& parameters, double x, std::uint64_t channel, DType to) {
  const double computed =
      std::ldexp(std::fabs(x * parameters.scale) + std::fabs(parameters.mean[channel]), -22) /
      parameters.std[channel];
  const double exact = parameters.apply(x, channel);
  if (to == DType::f32) return computed;
  const int digits = to == DType::f16 ? 11 : 8;
  const int least = to == DType::f16 ? -14 : -126;
  const int exponent = exact == 0 ? least : std::max(std::ilogb(exact), least);
  return computed + std::ldexp(1.0, exponent - digits);
}

/// Owns bytes at a chosen distance from an address aligned to 64, with readable bytes on both sides, as in a
/// GPU allocation.
class OffsetBytes {
 public:
  OffsetBytes(std::size_t bytes, std::size_t offset)
      : memory_((bytes + offset) / 64 + 3), start_(memory_.data()->bytes + 64 + offset) {}
  std::byte* data() noexcept { return start_; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<Line> memory_;
  std::byte* start_;
};

/// Returns the offset in the source of output element (sample, channel, y, x), or −1 if it is padding.
inline std::int64_t source_index(const gpu::ImageLayout& layout, const SampleTransform& transform,
                                 std::int64_t sample, std::int64_t channel, std::int64_t y, std::int64_t x) {
  const std::int64_t column = transform.flip != 0 ? layout.out_width - 1 - x : x;
  const std::int64_t row = (transform.vertical_flip != 0 ? layout.out_height - 1 - y : y) + transform.crop_y;
  const std::int64_t source_column = column + transform.crop_x;
  if (row < 0 || row >= layout.in_height || source_column < 0 || source_column >= layout.in_width) return -1;
  if (layout.in_channels_last) {
    return ((sample * layout.in_height + row) * layout.in_width + source_column) * layout.channels + channel;
  }
  return ((sample * layout.channels + channel) * layout.in_height + row) * layout.in_width + source_column;
}

/// Returns the offset in the output of element (sample, channel, y, x).
inline std::int64_t output_index(const gpu::ImageLayout& layout, std::int64_t sample, std::int64_t channel,
                                 std::int64_t y, std::int64_t x) {
  if (layout.out_channels_last) {
    return ((sample * layout.out_height + y) * layout.out_width + x) * layout.channels + channel;
  }
  return ((sample * layout.channels + channel) * layout.out_height + y) * layout.out_width + x;
}

/// Calls f(output index, source index or −1, channel) for every output element.
template <typename F>
void for_each_output(const gpu::ImageLayout& layout, const std::vector<SampleTransform>& transforms, F&& f) {
  for (std::int64_t n = 0; n < layout.samples; ++n) {
    const SampleTransform transform =
        transforms.empty() ? SampleTransform{} : transforms[static_cast<std::size_t>(n)];
    for (std::int64_t c = 0; c < layout.channels; ++c) {
      for (std::int64_t y = 0; y < layout.out_height; ++y) {
        for (std::int64_t x = 0; x < layout.out_width; ++x) {
          f(output_index(layout, n, c, y, x), source_index(layout, transform, n, c, y, x), c);
        }
      }
    }
  }
}

}  // namespace h5feed::test
