// SPDX-License-Identifier: Apache-2.0
// Plans how to re-cut a dataset from one chunk shape to another within bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/byte_units.hpp"
#include "store/index/chunk_index.hpp"
#include "tools/storage/chunk_walk.hpp"

namespace h5feed::cli {

/// Memory that `repack` uses where --memory is not given.
constexpr std::uint64_t default_repack_memory(std::uint64_t available_bytes) noexcept {
  return available_bytes / 4;
}
/// Bytes that `repack` holds for the places of chunks: of the source, and, to verify, of the target.
constexpr std::uint64_t chunk_table_bytes(std::uint64_t source_chunks, std::uint64_t target_chunks) noexcept {
  constexpr std::uint64_t kSealBytes = 33;
  return source_chunks * sizeof(ChunkLocation) + target_chunks * (kSealBytes + sizeof(ChunkLocation));
}
/// Returns whether `repack` works with so much memory while it holds `table_bytes` for the places of chunks.
constexpr bool holds_chunk_tables(std::uint64_t memory_bytes, std::uint64_t table_bytes) noexcept {
  return table_bytes < memory_bytes / 2;
}
/// Returns a memory with which `holds_chunk_tables` is true.
constexpr std::uint64_t memory_for_chunk_tables(std::uint64_t table_bytes) noexcept {
  return 2 * table_bytes + kMiB;
}

/// Extents of a re-cut, in elements; at least one dimension, no extent is 0.
struct RecutShapes {
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> source_chunk;
  std::vector<std::uint64_t> target_chunk;
  std::size_t element_bytes = 1;
};

/// Limits of a plan, and the memory that its parts take.
struct RecutLimits {
  std::uint64_t memory_bytes = 0;
  std::uint64_t held_bytes = 0;  ///< part of `memory_bytes` that is not available for this work
  unsigned jobs = 1;
  std::uint64_t decode_bytes = 0;  ///< one thread's buffers for a source chunk
  std::uint64_t encode_bytes = 0;  ///< one target chunk in flight, in all its forms
};

/// Plan of a re-cut. The dataset is processed region by region; within a region a window slides along the
/// first dimension: source chunks are decoded into it and target chunks are taken from it.
struct RecutPlan {
  std::vector<std::uint64_t> region;  ///< multiples of the target chunk, or the whole extent
  std::uint64_t bands_per_step = 1;   ///< rows of target chunks that are filled at a time
  std::uint64_t window_bytes = 0;     ///< bytes of the largest window
  std::size_t windows = 1;            ///< 2: one is filled while the other is emptied
  std::size_t encoders = 1;           ///< target chunks in flight
  unsigned jobs = 1;
  std::uint64_t memory_bytes = 0;  ///< most memory that the whole re-cut takes
  /// Mean number of times that each source chunk is needed: 1 if one row of source chunks fits.
  double visits = 1;
  /// If true, source chunks are decoded once into a scratch file, from which their parts are read.
  bool scratch = false;
};

/// Returns the plan with the fewest visits that fits. Throws OptionError that names the least memory for
/// `dataset`.
RecutPlan plan_recut(const RecutShapes& shapes, const RecutLimits& limits, const std::string& dataset);

/// Returns the number of elements in `box`.
std::uint64_t elements_of(const ChunkBox& box) noexcept;

/// Returns the regions of a plan in row-major order.
std::vector<ChunkBox> regions_of(const RecutShapes& shapes, const RecutPlan& plan);

/// Returns the part of the dataset that chunk number `chunk` of a grid covers.
ChunkBox box_of_chunk(std::uint64_t chunk, std::span<const std::uint64_t> chunk_shape,
                      std::span<const std::uint64_t> shape);

/// Returns the common part of `a` and `b`; a dimension without overlap has count 0.
ChunkBox intersection(const ChunkBox& a, const ChunkBox& b);

/// Returns the numbers of the chunks that touch `box`, in row-major order.
std::vector<std::uint64_t> chunks_touching(const ChunkBox& box, std::span<const std::uint64_t> chunk_shape,
                                           std::span<const std::uint64_t> shape);

/// Returns the element offset of the start of `inner` in a row-major array that holds `outer`.
std::uint64_t offset_within(const ChunkBox& outer, const ChunkBox& inner) noexcept;

}  // namespace h5feed::cli
