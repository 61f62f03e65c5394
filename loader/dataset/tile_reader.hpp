// SPDX-License-Identifier: Apache-2.0
// Presents a dataset of images as a dataset of their tiles.
#pragma once

#include <memory>

#include "dataset/tiling.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Wraps `images` with one row per tile. Chunks and their numbers stay the same; each tile belongs to the
/// chunks of its image. `chunk_shape()` and `grid()` are those of the images; `rows_readable()` is false.
/// Shares ownership of `images`. Throws DatasetError if there are more tiles, or larger ones, than can be
/// counted.
std::shared_ptr<const ChunkReader> as_tiles(std::shared_ptr<const ChunkReader> images, const Tiling& tiling);

}  // namespace h5feed
