// SPDX-License-Identifier: Apache-2.0
// Chooses tiles by the labels of their pixels.
#pragma once

#include "dataset/dataset_state.hpp"

namespace h5feed {

/// Reads all labels, if `TileOptions::foreground` or `min_foreground` needs them, and sets the places that
/// tiles are centred on, or the tiles that are kept. Does nothing otherwise. `state` has tiles, and is
/// complete apart from that. Blocks; decodes on all CPUs. Throws OptionError if there are no labels,
/// DatasetError if they are not integers with the extents of the images or leave no tile, FileError,
/// ChunkError.
void apply_labels(DatasetState& state);

}  // namespace h5feed
