// SPDX-License-Identifier: Apache-2.0
// Presents datasets of images as one dataset of their tiles.
#pragma once

#include <memory>
#include <vector>

#include "dataset/tiles/tiling.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/joined_reader.hpp"

namespace h5feed {

/// Joins `images`, with one row per tile; `whole` describes them together. Each tile belongs to the chunks of
/// its image. Chunks that hold parts of the same images have consecutive numbers, as many as
/// `tiling.most_pieces()`: where images have fewer chunks, the last of these numbers are not in use and must
/// not be read. `rows_readable()` is false; `origin()` names the image of a tile. Throws DatasetError if
/// tiles are too large, or those of a chunk too many, to be counted.
std::shared_ptr<const ChunkReader> as_tiles(const std::vector<JoinedPart>& images, const DatasetInfo& whole,
                                            const Tiling& tiling);

}  // namespace h5feed
