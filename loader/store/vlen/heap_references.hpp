// SPDX-License-Identifier: Apache-2.0
// Reads where the values of a variable-length dataset are stored.
#pragma once

#include <memory>
#include <vector>

#include "store/hdf5/global_heap.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/reader_factories.hpp"

namespace h5feed {

/// Reads all references of a dataset of shape (N), one per row, without libhdf5. `info` describes the
/// references (`H5File::describe_vlen` or `describe_ragged`). Blocks. Throws FileError and ChunkError;
/// DatasetError if they cannot be read directly.
std::vector<HeapReference> read_references(const std::shared_ptr<H5File>& file, const DatasetInfo& info,
                                           const HeapFormat& format,
                                           const std::shared_ptr<const ByteSource>& source,
                                           const ReaderSettings& settings);

}  // namespace h5feed
