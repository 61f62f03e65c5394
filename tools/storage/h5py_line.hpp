// SPDX-License-Identifier: Apache-2.0
// The line of h5py that writes a dataset.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/format/dataset_info.hpp"

namespace h5feed::cli {

/// Returns text, such as a path from a file, as a string of Python.
std::string python_string(std::string_view text);

/// Returns "out.create_dataset("/images", data=VALUES, chunks=(100, 3, 64, 64), compression='gzip')".
std::string h5py_line(std::string_view path, std::string_view values, const std::vector<std::uint64_t>& chunk,
                      const std::vector<FilterSpec>& filters);

}  // namespace h5feed::cli
