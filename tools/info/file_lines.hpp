// SPDX-License-Identifier: Apache-2.0
// What `info` says of a file as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/files/storage_kind.hpp"
#include "store/hdf5/h5_file.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {

/// Returns "train.h5: 1.2 GiB, 2 datasets, on ext4", and a line each for links into other files and for a
/// file that a SWMR writer has open. `name` is the file as the user named it.
std::string file_lines(const H5File& file, const std::string& name, std::uint64_t bytes,
                       std::size_t num_datasets, const std::vector<ExternalLink>& links,
                       const StorageKind& storage);

/// Returns the links into other files as JSON.
Json links_json(const std::vector<ExternalLink>& links);

}  // namespace h5feed::cli
