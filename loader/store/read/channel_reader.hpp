// SPDX-License-Identifier: Apache-2.0
// Some of the channels of a dataset as a dataset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Returns a reader of the chosen indices along dimension `dimension`, above 0, in the given order, each once
/// and less than its extent. A chunk of it holds all chosen channels of the rows of a chunk of `reader`;
/// reading it reads only the chunks that hold one of them. Rows and other dimensions stay.
std::shared_ptr<const ChunkReader> as_channels(std::shared_ptr<const ChunkReader> reader,
                                               std::size_t dimension, std::vector<std::uint64_t> channels);

}  // namespace h5feed
