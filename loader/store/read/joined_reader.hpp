// SPDX-License-Identifier: Apache-2.0
// Concatenates datasets along the first dimension: files of a list, sources of a virtual dataset, groups.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Rows [first_row, first_row + rows) of a reader whose chunks have equal height.
struct JoinedPart {
  std::shared_ptr<const ChunkReader> reader;
  std::uint64_t first_row = 0;  ///< First row in `reader`
  std::uint64_t rows = 0;       ///< Number of rows
};

/// Concatenates the parts' rows in order. All parts must have the same element type and the same dimensions
/// except the first. If their chunk shapes differ in those dimensions, chunks that hold the same rows are
/// read as one. Messages call the result `file`:`path`. Throws std::invalid_argument if there are no parts or
/// they do not fit.
std::shared_ptr<const ChunkReader> join_readers(std::vector<JoinedPart> parts, std::string file,
                                                std::string path);

/// Returns `parts` with those that are joined readers themselves replaced by their parts, so that the chunks
/// of each have equal height. Throws std::bad_alloc.
std::vector<JoinedPart> flattened(std::vector<JoinedPart> parts);

/// Returns the metadata of all rows together, which messages call `file`:`path`; dimensions other than the
/// first are those of the first part. Throws std::invalid_argument if there are no parts, or a part has
/// another type or number of dimensions.
DatasetInfo joined_info(const std::vector<JoinedPart>& parts, std::string file, std::string path);

/// Returns a reader with one additional, leading dimension, whose only row is the whole dataset of `reader`.
std::shared_ptr<const ChunkReader> as_one_row(std::shared_ptr<const ChunkReader> reader);

}  // namespace h5feed
