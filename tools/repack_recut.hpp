// The work of a re-cut: source chunks decoded in parallel, target chunks handed out whole and in order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/byte_buffer.hpp"
#include "store/chunk_reader.hpp"
#include "tools/recut_plan.hpp"

namespace h5feed::cli {

/// One target chunk under way.
struct TargetChunk {
  std::uint64_t number = 0;        ///< in row-major order of the target's chunk grid
  ChunkBox box;                    ///< what of the dataset it covers
  ByteBuffer values;               ///< the whole chunk in host byte order; padding takes the fill value
  std::vector<std::byte> encoded;  ///< what `encode` made of it
};

/// What becomes of target chunks.
struct RecutTarget {
  bool every_chunk = false;                  ///< also those of which nothing was ever written
  std::function<void(TargetChunk&)> encode;  ///< called by many threads at once
  std::function<void(TargetChunk&)> write;   ///< one at a time, region by region, in row-major order
};

/// Delivers every target chunk of which something was ever written in the source, once; all where the
/// target wants every chunk. `advance` gets the decoded bytes that arrived, from one thread at a time.
/// Blocks. Throws what the reader and the target throw, FileError of the scratch file (beside `out`), and
/// Interrupted.
void recut(const ChunkReader& reader, const RecutShapes& shapes, const RecutPlan& plan,
           const std::filesystem::path& out, const RecutTarget& target,
           const std::function<void(std::uint64_t)>& advance);

}  // namespace h5feed::cli
