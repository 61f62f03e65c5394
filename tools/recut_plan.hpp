// How to re-cut a dataset from one chunk shape to another within bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/chunk_walk.hpp"

namespace h5feed::cli {

/// The extents of a re-cut, in elements; at least one dimension, no extent is 0.
struct RecutShapes {
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> source_chunk;
  std::vector<std::uint64_t> target_chunk;
  std::size_t element_bytes = 1;
};

/// What limits a plan, and what the parts of the work take.
struct RecutLimits {
  std::uint64_t memory_bytes = 0;
  std::uint64_t held_bytes = 0;  ///< of them, not for this work
  unsigned jobs = 1;
  std::uint64_t decode_bytes = 0;  ///< one thread's buffers for a source chunk
  std::uint64_t encode_bytes = 0;  ///< one target chunk under way, in all its forms
};

/// The dataset is worked on region by region; within a region a window slides along the first dimension:
/// source chunks are decoded into it, target chunks taken out of it.
struct RecutPlan {
  std::vector<std::uint64_t> region;  ///< multiples of the target chunk, or the whole extent
  std::uint64_t bands_per_step = 1;   ///< rows of target chunks that are filled at once
  std::uint64_t window_bytes = 0;     ///< the largest window
  std::size_t windows = 1;            ///< 2: one is filled while the other is emptied
  std::size_t encoders = 1;           ///< target chunks under way
  unsigned jobs = 1;
  std::uint64_t memory_bytes = 0;  ///< the most that all of it takes
  /// How often each source chunk is needed, on average: 1 where one row of source chunks fits.
  double visits = 1;
  /// Source chunks are decoded once into a scratch file, from which their parts are taken.
  bool scratch = false;
};

/// The plan with the fewest visits that fits. Throws OptionError that names the least memory for `dataset`.
RecutPlan plan_recut(const RecutShapes& shapes, const RecutLimits& limits, const std::string& dataset);

std::uint64_t elements_of(const ChunkBox& box) noexcept;

/// The regions of a plan in row-major order.
std::vector<ChunkBox> regions_of(const RecutShapes& shapes, const RecutPlan& plan);

/// What chunk number `chunk` of a grid covers, clipped to the dataset.
ChunkBox box_of_chunk(std::uint64_t chunk, std::span<const std::uint64_t> chunk_shape,
                      std::span<const std::uint64_t> shape);

ChunkBox intersection(const ChunkBox& a, const ChunkBox& b);

/// Numbers of the chunks that touch `box`, in row-major order.
std::vector<std::uint64_t> chunks_touching(const ChunkBox& box, std::span<const std::uint64_t> chunk_shape,
                                           std::span<const std::uint64_t> shape);

/// Where the element at the start of `inner` lies in a row-major array that holds `outer`.
std::uint64_t offset_within(const ChunkBox& outer, const ChunkBox& inner) noexcept;

}  // namespace h5feed::cli
