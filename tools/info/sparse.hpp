// SPDX-License-Identifier: Apache-2.0
// Recognition of sparse matrices, and the lines that read them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"

namespace h5feed::cli {

/// Returns the lines of C++ and Python that read the sparse matrices of a file of AnnData or 10x Genomics,
/// with a categorical column of AnnData as the target; for CSC of AnnData, how it is converted. Empty if the
/// file has none. `shown` is the name of the file in the lines. Throws FileError.
std::string lines_of_sparse(const std::shared_ptr<H5File>& file, const std::vector<DatasetEntry>& entries,
                            const std::string& shown);

}  // namespace h5feed::cli
