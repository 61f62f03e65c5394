// SPDX-License-Identifier: Apache-2.0
// Several datasets one after the other, as one: files of a list, sources of a virtual dataset, groups.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Rows [first_row, first_row + rows) of a reader whose chunks are of equal height.
struct JoinedPart {
  std::shared_ptr<const ChunkReader> reader;
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;
};

/// The parts' rows in order. All have the same element type and the same dimensions but the first; where
/// their chunks are not of the same extent in those, chunks that hold the same rows are read as one.
/// `file` and `path` are what messages call the whole. Throws std::invalid_argument for parts that do not
/// fit.
std::shared_ptr<const ChunkReader> join_readers(std::vector<JoinedPart> parts, std::string file,
                                                std::string path);

/// A whole dataset as the only row of one that has a dimension more.
std::shared_ptr<const ChunkReader> as_one_row(std::shared_ptr<const ChunkReader> reader);

}  // namespace h5feed
