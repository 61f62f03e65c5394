// SPDX-License-Identifier: Apache-2.0
// Reads the stored values of a dataset piece by piece. Internal to this folder; callers hold an Hdf5Session.
#pragma once

#include <H5Cpp.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "store/hdf5/object_tree.hpp"

namespace h5feed {

/// Returns whether each chunk of a chunked dataset is stored. Throws FileError.
bool stores_all_chunks(hid_t dataset, const H5::DSetCreatPropList& plist, const Hdf5Calls& calls,
                       const std::string& path) H5FEED_REQUIRES(hdf5_mutex);

/// Reads a dataset in pieces of about 4 MiB, with the parts of variable length, and calls `use` with the
/// values and the selections for H5Dwrite. Leaves out what is not stored, and calls `use` never if that is
/// all. Pieces are whole rows in row-major order, of the stored chunks where any are left out or values are
/// of variable length. Frees variable-length parts after each call. Throws FileError and what `use` throws.
void read_in_pieces(hid_t dataset, hid_t type, const Hdf5Calls& calls, const std::string& path,
                    const std::function<void(std::span<std::byte> values, std::size_t elements,
                                             hid_t memory_space, hid_t file_space)>& use)
    H5FEED_REQUIRES(hdf5_mutex);

}  // namespace h5feed
