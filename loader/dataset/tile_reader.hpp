// A dataset of images as a dataset of their tiles.
#pragma once

#include <memory>

#include "dataset/tiling.hpp"
#include "store/chunk_reader.hpp"

namespace h5feed {

/// `images` with one row a tile: the same chunks under the same numbers, and tiles dealt to them as their
/// images are. `chunk_shape()` and `grid()` are those of the images. No row lies in one piece. Throws
/// DatasetError as `tiles_of`.
std::shared_ptr<const ChunkReader> as_tiles(std::shared_ptr<const ChunkReader> images, const Tiling& tiling);

}  // namespace h5feed
