// SPDX-License-Identifier: Apache-2.0
// Where the chunks of an extensible array lie in their dataset.
#pragma once

#include <H5Cpp.h>

#include <span>

#include "store/hdf5/hdf5_session.hpp"

namespace h5feed {

/// Returns whether libhdf5 may list the chunks of `dataset` at wrong offsets. Its index is then an extensible
/// array, and its unlimited dimension is not the first one. Such an array is ordered by that dimension first,
/// while H5Dchunk_iter and H5Dget_chunk_info of libhdf5 (seen in 1.10.8, 1.14.5 and 2.0) give offsets as if
/// it were ordered by the dimensions as they come. To look for a chunk at its offset works.
bool lists_wrong_places(hid_t dataset) H5FEED_REQUIRES(hdf5_mutex);

/// Puts right the offsets at which libhdf5 lists the chunks of a dataset of which `lists_wrong_places` is
/// true, and leaves those of a library that lists them as they are. `offsets` are those of all its chunks, or
/// of the first ones in the order of the index, in elements: for each chunk as many numbers as the dataset
/// has dimensions. Looks for the chunks there; returns false if libhdf5 does not find one that lies within
/// the extent.
[[nodiscard]] bool correct_places(hid_t dataset, std::span<hsize_t> offsets) H5FEED_REQUIRES(hdf5_mutex);

}  // namespace h5feed
