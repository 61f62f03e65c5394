// SPDX-License-Identifier: Apache-2.0
// Messages of object headers whose contents go beyond their end. libhdf5 1.10 decodes most messages without
// asking where they end, and copies what follows them in memory, or crashes.
#pragma once

#include <string_view>

#include "store/format/message_contents.hpp"
#include "store/format/object_header.hpp"

namespace h5feed {

/// Returns what libhdf5 would look for beyond the end of the message ("a fill value"); empty if nothing,
/// and for a message that libhdf5 refuses before it comes to the end. Checked are references to shared
/// messages, dataspaces, datatypes, fill values, lists of external files, layouts, filters, attributes and
/// comments (HDF5 File Format Specification, section IV.A.2).
std::string_view beyond_message(const HeaderMessage& message, const NumberWidths& widths);

}  // namespace h5feed
