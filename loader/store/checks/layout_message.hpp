// SPDX-License-Identifier: Apache-2.0
// Layout messages of datasets (HDF5 File Format Specification, section IV.A.2.i).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "store/format/object_header.hpp"

namespace h5feed {

/// Returns the extents of the chunks in a layout with the contents `body`, the last of them being the size of
/// an element; none for other layouts.
std::vector<std::uint64_t> chunk_extents(const MetadataBytes& bytes, std::span<const std::byte> body);

/// Returns whether values that lie in one piece go beyond what the superblock counts to the file, where
/// libhdf5 reads none. False for other layouts, and for those before version 3, which do not tell their size.
bool ends_beyond_file(const MetadataBytes& bytes, std::span<const std::byte> body) noexcept;

}  // namespace h5feed
