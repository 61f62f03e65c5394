// SPDX-License-Identifier: Apache-2.0
// A normalize kernel is a set of tiles, each the work of one block of threads, and independent of the others.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "cuda/kernels/divisor.hpp"

namespace h5feed::gpu {

/// Of a block. DALI measured 256 above 512 for this kind of kernel (DALI pull request 3771).
constexpr std::uint32_t kThreads = 256;

/// Positions in a sample that are counted in 32 bits stay below this: a tile and a sample further on, they
/// are still divided exactly.
constexpr std::int64_t kMost32Bit = std::int64_t{1} << 30;

template <typename Index>
struct Place {
  std::int64_t sample;
  Index rest;
};

/// Where in which sample `position` of the batch lies. In a tile all threads ask for the same one.
template <typename Index>
H5FEED_HOST_DEVICE Place<Index> place_of(std::int64_t position, const Divisor<Index>& sample) noexcept {
  if (position < std::int64_t{1} << 31) {
    const auto [whole, rest] = sample.split(static_cast<Index>(position));
    return {static_cast<std::int64_t>(whole), rest};
  }
  const auto size = static_cast<std::int64_t>(sample.value());
  return {position / size, static_cast<Index>(position % size)};
}

/// What thread `thread` of block `block` does.
template <typename Units, typename Values>
H5FEED_HOST_DEVICE void run_thread(const Units& units, const Values& values, std::int64_t block,
                                   std::int64_t blocks, std::uint32_t thread) noexcept {
  const std::int64_t tiles = units.tiles();
  for (std::int64_t tile = block; tile < tiles; tile += blocks) units(tile, thread, values);
}

}  // namespace h5feed::gpu
