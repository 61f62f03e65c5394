// Some rows of a dataset as a dataset of their own.
#pragma once

#include <cstdint>
#include <memory>

#include "store/chunk_reader.hpp"

namespace h5feed::cli {

/// Rows [first, first + rows) of `base`, in chunks of the same shape. Where `first` is a multiple of the
/// chunks' rows its chunks are those of `base`, stored bytes included; else each is decoded from the two it
/// lies in. `stored_swapped` is the byte order of the copy that the rows are for: chunks that are stored in
/// another one, or whose edges are stored unfiltered, are not `direct`, so that nobody copies them as they
/// are.
std::shared_ptr<const ChunkReader> make_row_range(std::shared_ptr<const ChunkReader> base,
                                                  std::uint64_t first, std::uint64_t rows,
                                                  bool stored_swapped);

}  // namespace h5feed::cli
