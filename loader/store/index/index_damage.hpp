// SPDX-License-Identifier: Apache-2.0
// Chunk indexes of which libhdf5 can use only a part.
#pragma once

#include <string>

#include "h5feed/error.hpp"
#include "store/format/dataset_info.hpp"
#include "store/hdf5/h5_file.hpp"

namespace h5feed {

/// A part of the chunk index cannot be read, or names bytes outside the file. libhdf5 may be able to read
/// other chunks of the dataset.
class UnreadableChunkIndex : public FileError {
 public:
  using FileError::FileError;
};

/// Lists the chunks of a chunked dataset and returns what is damaged in their index: a whole sentence with
/// the next step, or an empty string if nothing is. A reader that uses libhdf5 does not tell whether it does
/// so because of damage. Holds the HDF5 mutex.
std::string chunk_index_damage(const H5File& file, const DatasetInfo& info);

}  // namespace h5feed
