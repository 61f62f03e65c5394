// SPDX-License-Identifier: Apache-2.0
// Message for memory that runs out while a dataset is read.
#pragma once

#include <fmt/format.h>

#include <new>
#include <string>

#include "h5feed/error.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {

/// Returns what `work` returns. Where it runs out of memory, throws Error that names the file and, unless it
/// is empty, the dataset: a chunk index, an order or buffers do not fit. Other errors pass.
template <typename Work>
auto name_where_memory_ends(const std::string& file, const std::string& dataset, const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw Error(
        fmt::format("{}{}{}: there is not enough memory to read it; close other programs, or store it in "
                    "fewer chunks with h5feed repack",
                    printable(file), dataset.empty() ? "" : ":", printable(dataset)));
  }
}

}  // namespace h5feed::cli
