// SPDX-License-Identifier: Apache-2.0
// The rows of a dataset that are complete while a SWMR writer appends to it.
#pragma once

#include <memory>

#include "store/format/byte_source.hpp"
#include "store/format/dataset_info.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/index/chunk_index.hpp"

namespace h5feed {

/// Chunks that no longer change, and the bytes of the file with those that may.
struct WrittenRows {
  ChunkIndex index;
  std::shared_ptr<const ByteSource> source;
};

/// Shortens the first extent of `info`, which was described before, to the rows whose chunks are all in the
/// file, and returns these chunks. Relies on what SWMR guarantees: values are in the file before the index
/// names their chunk, the index before the extents, and a chunk that has moved stays where it was. What SWMR
/// does not exclude is that the last chunks are written again in the same place. The stored bytes of those
/// with filters, which would be torn, are therefore kept in memory, up to 64 MiB, once two reads agree and
/// they decode; the rows of more, and of those that do not settle within half a second, are left out, with a
/// warning. Blocks. Throws as `build_chunk_index`, and FileError.
WrittenRows written_rows(const H5File& file, DatasetInfo& info, std::shared_ptr<const ByteSource> source);

}  // namespace h5feed
