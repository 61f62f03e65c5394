// SPDX-License-Identifier: Apache-2.0
// Recognition of sparse matrices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "tools/info/open_lines.hpp"

namespace h5feed::cli {

/// Sparse matrices of a file.
struct SparseSamples {
  std::vector<FoundSamples> found;
  std::string
      refusals;  ///< A line for each matrix that is refused, such as CSC of AnnData: how to convert it
};

/// Returns how to read the sparse matrices of a file of AnnData or 10x Genomics, with a categorical column of
/// AnnData as the target. Throws FileError.
SparseSamples sparse_samples(const std::shared_ptr<H5File>& file, const std::vector<DatasetEntry>& entries);

}  // namespace h5feed::cli
