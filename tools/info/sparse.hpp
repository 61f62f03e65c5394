// SPDX-License-Identifier: Apache-2.0
// Recognition of sparse matrices, and how to read them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "tools/info/open_lines.hpp"

namespace h5feed::cli {

/// The sparse matrices of a file.
struct SparseReadings {
  std::vector<OpenReading> readings;
  std::string problems;  ///< Lines about matrices that cannot be read: CSC, and damaged ones
};

/// Returns how to read the sparse matrices of a file of AnnData or 10x Genomics, with a categorical column of
/// AnnData as the target. Opens them as a loader does, unless the table of rows is very large. Throws
/// FileError.
SparseReadings sparse_readings(const std::shared_ptr<H5File>& file, const std::vector<DatasetEntry>& entries);

}  // namespace h5feed::cli
