// SPDX-License-Identifier: Apache-2.0
// Presents a range of a dataset's rows as a dataset of its own.
#pragma once

#include <cstdint>
#include <memory>

#include "store/read/chunk_reader.hpp"

namespace h5feed::cli {

/// Returns a reader of rows [first, first + rows) of `base`, in chunks of the same shape. If `first` is a
/// multiple of a chunk's rows, its chunks are those of `base`, stored bytes included; otherwise each is
/// decoded from the two that it overlaps. `stored_swapped` is the byte order of the copy that the rows are
/// for: chunks stored in the other byte order, or with unfiltered edges, are not `direct`, so that nobody
/// copies their stored bytes. Shares ownership of `base`.
std::shared_ptr<const ChunkReader> make_row_range(std::shared_ptr<const ChunkReader> base,
                                                  std::uint64_t first, std::uint64_t rows,
                                                  bool stored_swapped);

}  // namespace h5feed::cli
