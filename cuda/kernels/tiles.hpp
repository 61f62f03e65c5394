// SPDX-License-Identifier: Apache-2.0
// The normalize kernels divide their work into independent tiles, each processed by one block of threads.
#pragma once

#include <cstdint>

#include "base/cuda_macros.hpp"
#include "cuda/kernels/divisor.hpp"

namespace h5feed::gpu {

/// Threads per block. DALI measured 256 to be faster than 512 for this kind of kernel (DALI pull request
/// 3771).
constexpr std::uint32_t kThreads = 256;

/// Samples of at most this many elements are indexed in 32 bits: even a position one tile and one sample
/// beyond is still divided exactly.
constexpr std::int64_t kMost32Bit = std::int64_t{1} << 30;

template <typename Index>
struct Place {
  std::int64_t sample;
  Index rest;
};

/// Returns the sample that contains `position` of the batch, and the offset within it. All threads of a tile
/// pass the same position.
template <typename Index>
H5FEED_HOST_DEVICE Place<Index> place_of(std::int64_t position, const Divisor<Index>& sample) noexcept {
  if (position < std::int64_t{1} << 31) {
    const auto [whole, rest] = sample.split(static_cast<Index>(position));
    return {static_cast<std::int64_t>(whole), rest};
  }
  const auto size = static_cast<std::int64_t>(sample.value());
  return {position / size, static_cast<Index>(position % size)};
}

/// Runs the work of thread `thread` of block `block`: every `blocks`-th tile, starting at tile `block`.
template <typename Units, typename Values>
H5FEED_HOST_DEVICE void run_thread(const Units& units, const Values& values, std::int64_t block,
                                   std::int64_t blocks, std::uint32_t thread) noexcept {
  const std::int64_t tiles = units.tiles();
  for (std::int64_t tile = block; tile < tiles; tile += blocks) units(tile, thread, values);
}

}  // namespace h5feed::gpu
