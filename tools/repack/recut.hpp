// SPDX-License-Identifier: Apache-2.0
// Runs a re-cut: source chunks are decoded in parallel, target chunks are delivered whole and in order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/byte_buffer.hpp"
#include "store/read/chunk_reader.hpp"
#include "tools/storage/recut_plan.hpp"

namespace h5feed::cli {

/// One target chunk in flight.
struct TargetChunk {
  std::uint64_t number = 0;        ///< in row-major order of the target's chunk grid
  ChunkBox box;                    ///< the part of the dataset that it covers
  ByteBuffer values;               ///< the whole chunk in host byte order; padding takes the fill value
  std::vector<std::byte> encoded;  ///< output of `encode`
};

/// Consumer of target chunks.
struct RecutTarget {
  bool every_chunk = false;                  ///< also deliver chunks of which nothing was ever written
  std::function<void(TargetChunk&)> encode;  ///< called by several threads at once
  std::function<void(TargetChunk&)> write;   ///< called one at a time, region by region, in row-major order
};

/// Delivers once every target chunk of which the source ever wrote something, or all if the target wants
/// every chunk. Calls `advance` with decoded bytes of the source, from one thread at a time. Blocks. Throws
/// the errors of the reader and the target, FileError of the scratch file (in the folder of `out`), and
/// Interrupted.
void recut(const ChunkReader& reader, const RecutShapes& shapes, const RecutPlan& plan,
           const std::filesystem::path& out, const RecutTarget& target,
           const std::function<void(std::uint64_t)>& advance);

}  // namespace h5feed::cli
