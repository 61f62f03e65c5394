// SPDX-License-Identifier: Apache-2.0
// Puts a dataset together from selections of others: the tiles of a detector, interleaved frames.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "store/format/selection.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Elements of a dataset that come from a source. Both selections have the same number of elements, which
/// correspond in row-major order.
struct SourceMapping {
  std::shared_ptr<const ChunkReader> source;
  Selection to;    ///< Of the dataset's rank, within its shape
  Selection from;  ///< Of the source's rank, within its shape
};

/// Returns whether the selections have the same extents in the same order, without those of 1: then each
/// dimension of one corresponds to one of the other.
bool dimensions_correspond(const Selection& to, const Selection& from);

/// Creates a reader of the dataset `info` in chunks of `rows_per_chunk` whole rows. Elements that no mapping
/// selects have the fill value; of those that several select, the last one counts, as in libhdf5. The sources
/// must have the type of `info`, and the dimensions of the selections correspond (`dimensions_correspond`).
/// A chunk of a source is decoded for each chunk of the reader that it has elements of, and again if others
/// were needed in between. Reads of the reader are as the sources' are: direct if all of them are.
std::shared_ptr<const ChunkReader> make_mapped_reader(DatasetInfo info, std::uint64_t rows_per_chunk,
                                                      std::vector<SourceMapping> mappings);

/// Returns the reader itself if its chunks are `regular()`, else one of the same values in chunks of whole
/// rows, all of the height of the highest chunk: for code that tells the place of a chunk by its number.
std::shared_ptr<const ChunkReader> on_grid(std::shared_ptr<const ChunkReader> reader);

}  // namespace h5feed
