// SPDX-License-Identifier: Apache-2.0
// Kernel for batches whose layout does not change: the result depends only on value and channel.
#pragma once

#include <cstdint>

#include "base/cuda_macros.hpp"
#include "cuda/kernels/divisor.hpp"
#include "cuda/kernels/runs.hpp"
#include "cuda/kernels/tiles.hpp"
#include "cuda/kernels/values.hpp"

namespace h5feed::gpu {

/// Treats the batch as one array of elements, in which (element / plane) mod channels is the channel. The
/// plane is height · width for (N,C,H,W) and 1 for (N,H,W,C). Threads of a tile store neighbouring runs of 16
/// bytes; each thread loads at least 16 bytes before it stores.
template <typename From, typename To>
struct FlatUnits {
  using Source = From;
  using Output = To;
  static constexpr bool kSharedTable = true;
  static constexpr std::uint32_t kRun = 16 / sizeof(To);  // elements of one 16-byte store
  static constexpr std::uint32_t kRunBytes = kRun * sizeof(From);
  static constexpr std::uint32_t kRunsPerThread = kRunBytes < 16 ? 16 / kRunBytes : 1;
  static constexpr std::uint32_t kTile = kThreads * kRunsPerThread * kRun;  // elements of one tile

  const From* in;
  To* out;
  std::int64_t elements;
  Divisor<std::uint32_t> sample;  ///< Divides by the elements of a sample, plane · channels
  Divisor<std::uint32_t> plane;
  Divisor<std::uint32_t> channels;
  bool past_caches;  ///< Use streaming stores, which leave the L2 cache to other data

  /// Number of tiles of the batch.
  H5FEED_HOST_DEVICE std::int64_t tiles() const noexcept { return (elements + kTile - 1) / kTile; }

  /// Converts the part of a tile that belongs to one thread.
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

  /// Converts and stores one run. `position`: offset of the run from the start of its sample.
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
