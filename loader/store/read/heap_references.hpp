// SPDX-License-Identifier: Apache-2.0
// Where the values of a variable-length dataset lie.
#pragma once

#include <memory>
#include <vector>

#include "store/hdf5/global_heap.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/reader_factories.hpp"

namespace h5feed {

/// The references of a dataset (N), one a row; `info` describes them (H5File::describe_vlen). Reads them all,
/// without libhdf5. Throws FileError, ChunkError; DatasetError where they cannot be read directly.
std::vector<HeapReference> read_references(const std::shared_ptr<H5File>& file, const DatasetInfo& info,
                                           const HeapFormat& format,
                                           const std::shared_ptr<const ByteSource>& source,
                                           const ReaderSettings& settings);

}  // namespace h5feed
