// SPDX-License-Identifier: Apache-2.0
// Messages of object headers whose contents go beyond their end. libhdf5 1.10 decodes most messages without
// asking where they end, and copies what follows them in memory, or crashes.
#pragma once

#include <cstddef>
#include <string_view>

#include "store/format/object_header.hpp"

namespace h5feed {

/// Widths of the numbers in a file, which its superblock gives.
struct NumberWidths {
  std::size_t address_bytes = 8;
  std::size_t length_bytes = 8;  ///< Sizes and extents
};

/// Returns what libhdf5 would look for beyond the end of the message ("a fill value"); empty if nothing, for
/// a message that is stored elsewhere, and for one that libhdf5 refuses before it comes to the end. Checked
/// are dataspaces, datatypes, fill values, lists of external files, layouts, filters, attributes and comments
/// (HDF5 File Format Specification, section IV.A.2).
std::string_view beyond_message(const HeaderMessage& message, const NumberWidths& widths);

}  // namespace h5feed
