// SPDX-License-Identifier: Apache-2.0
// The normalize kernel for batches whose elements stay where they are: nothing but an element's channel
// matters.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "cuda/kernels/divisor.hpp"
#include "cuda/kernels/runs.hpp"
#include "cuda/kernels/tiles.hpp"
#include "cuda/kernels/values.hpp"

namespace h5feed::gpu {

/// The batch as one array of elements, (element / plane) mod channels being the channel: plane is height ·
/// width of (N,C,H,W) and 1 of (N,H,W,C). Threads of a tile store neighbouring runs of 16 bytes; a thread
/// loads 16 bytes and more before it stores any.
template <typename From, typename To>
struct FlatUnits {
  using Source = From;
  using Output = To;
  static constexpr bool kSharedTable = true;
  static constexpr std::uint32_t kRun = 16 / sizeof(To);  // elements
  static constexpr std::uint32_t kRunBytes = kRun * sizeof(From);
  static constexpr std::uint32_t kRunsPerThread = kRunBytes < 16 ? 16 / kRunBytes : 1;
  static constexpr std::uint32_t kTile = kThreads * kRunsPerThread * kRun;  // elements

  const From* in;
  To* out;
  std::int64_t elements;
  Divisor<std::uint32_t> sample;  ///< plane · channels
  Divisor<std::uint32_t> plane;
  Divisor<std::uint32_t> channels;
  bool past_caches;  ///< stores leave the L2 cache to others

  H5FEED_HOST_DEVICE std::int64_t tiles() const noexcept { return (elements + kTile - 1) / kTile; }

  H5FEED_HOST_DEVICE void operator()(std::int64_t tile, std::uint32_t thread,
                                     const Values<From, To>& values) const noexcept {
    const std::int64_t first = tile * kTile;
    const std::uint32_t start = place_of(first, sample).rest;
    const From* const from = in + first;
    To* const to = out + first;
    if (elements - first >= kTile) {
      Loaded<From, kRun> runs[kRunsPerThread];
      H5FEED_UNROLL
      for (std::uint32_t k = 0; k < kRunsPerThread; ++k) {
        runs[k] = Loaded<From, kRun>(from + element_of(thread, k));
      }
      H5FEED_UNROLL
      for (std::uint32_t k = 0; k < kRunsPerThread; ++k) {
        const std::uint32_t at = element_of(thread, k);
        store(to + at, runs[k], start + at, values);
      }
      return;
    }
    const auto left = static_cast<std::uint32_t>(elements - first);
    for (std::uint32_t at = thread; at < left; at += kThreads) {
      to[at] = values(from[at], channels.split(plane.split(start + at).whole).rest);
    }
  }

 private:
  H5FEED_HOST_DEVICE static constexpr std::uint32_t element_of(std::uint32_t thread,
                                                               std::uint32_t run) noexcept {
    return (run * kThreads + thread) * kRun;
  }

  /// `position`: of the run, counted from the start of a sample.
  H5FEED_HOST_DEVICE void store(To* to, const Loaded<From, kRun>& run, std::uint32_t position,
                                const Values<From, To>& values) const noexcept {
    auto [planes, offset] = plane.split(position);
    std::uint32_t channel = channels.split(planes).rest;
    To result[kRun];
    if (offset + kRun <= plane.value()) {
      H5FEED_UNROLL
      for (std::uint32_t i = 0; i < kRun; ++i) result[i] = values(run[i], channel);
    } else {
      H5FEED_UNROLL
      for (std::uint32_t i = 0; i < kRun; ++i) {
        result[i] = values(run[i], channel);
        if (++offset < plane.value()) continue;
        offset = 0;
        channel = channel + 1 == channels.value() ? 0 : channel + 1;
      }
    }
    store_run(to, result, past_caches);
  }
};

}  // namespace h5feed::gpu
