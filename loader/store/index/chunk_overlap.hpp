// SPDX-License-Identifier: Apache-2.0
// Finds chunks of a dataset that share bytes of its file. Internal to chunk_index.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "store/index/chunk_index.hpp"

namespace h5feed {

/// Bytes of a stored chunk. HDF5 stores chunks below 4 GiB, and an index has at most 2^26.
struct ChunkStart {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  std::uint32_t chunk = 0;
};

/// Sorts by address: by digits, which for a million chunks in random order takes half the time of std::sort.
inline void sort_by_address(std::vector<ChunkStart>& starts, std::uint64_t largest_address) {
  constexpr unsigned kDigitBits = 11;
  constexpr std::uint64_t kDigit = (std::uint64_t{1} << kDigitBits) - 1;
  std::vector<ChunkStart> sorted(starts.size());
  for (unsigned shift = 0; shift < 64 && largest_address >> shift != 0; shift += kDigitBits) {
    std::array<std::size_t, kDigit + 1> begin = {};
    for (const ChunkStart& start : starts) ++begin[start.address >> shift & kDigit];
    std::exclusive_scan(begin.begin(), begin.end(), begin.begin(), std::size_t{0});
    for (const ChunkStart& start : starts) sorted[begin[start.address >> shift & kDigit]++] = start;
    starts.swap(sorted);
  }
}

/// Returns the numbers of two chunks, the smaller one first, whose stored bytes overlap; empty if there are
/// none. Every location must lie within the file. One pass where the chunks lie in the file in the order of
/// their numbers, as writers mostly leave them; else sorts the addresses, which takes 32 bytes a chunk.
inline std::optional<std::pair<std::uint64_t, std::uint64_t>> overlapping_chunks(
    std::span<const ChunkLocation> locations) {
  // A chunk without bytes overlaps nothing.
  const auto takes_space = [](const ChunkLocation& location) {
    return location.allocated() && location.stored_bytes > 0;
  };
  std::uint64_t end = 0;
  const bool in_file_order = std::ranges::all_of(locations, [&](const ChunkLocation& location) {
    if (!takes_space(location)) return true;
    if (location.address < end) return false;
    end = location.address + location.stored_bytes;
    return true;
  });
  if (in_file_order) return std::nullopt;
  std::vector<ChunkStart> starts;
  starts.reserve(locations.size());
  std::uint64_t largest = 0;
  for (std::uint64_t chunk = 0; chunk < locations.size(); ++chunk) {
    if (!takes_space(locations[chunk])) continue;
    constexpr std::uint64_t kMostBytes = ~std::uint32_t{0};
    starts.push_back({locations[chunk].address,
                      static_cast<std::uint32_t>(std::min(locations[chunk].stored_bytes, kMostBytes)),
                      static_cast<std::uint32_t>(chunk)});
    largest = std::max(largest, locations[chunk].address);
  }
  sort_by_address(starts, largest);
  for (std::size_t i = 1; i < starts.size(); ++i) {
    const ChunkStart& before = starts[i - 1];
    // As long as no two overlap, only the chunk before can reach this one.
    if (starts[i].address < before.address + before.bytes)
      return std::minmax({std::uint64_t{before.chunk}, std::uint64_t{starts[i].chunk}});
  }
  return std::nullopt;
}

}  // namespace h5feed
