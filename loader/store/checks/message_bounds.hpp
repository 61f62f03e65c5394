// SPDX-License-Identifier: Apache-2.0
// Messages of object headers whose contents go beyond their end. libhdf5 1.10 decodes most messages without
// asking where they end, and copies what follows them in memory, or crashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "store/format/message_contents.hpp"
#include "store/format/object_header.hpp"

namespace h5feed {

/// Returns what libhdf5 would look for beyond the end of the message ("a fill value"); empty if nothing, for
/// types of messages that are not examined, and for a version that libhdf5 refuses. Not examined are links,
/// which `read_link_message` takes apart, what a header says of the links to come, of which libhdf5 reads a
/// few bytes, and messages in the file's table of shared ones (HDF5 File Format Specification, section
/// IV.A.2).
std::string_view beyond_message(const HeaderMessage& message, const NumberWidths& widths);

/// Takes a dataspace. Returns its number of elements, which wraps around as it does in libhdf5; 0 if libhdf5
/// refuses it.
std::uint64_t take_dataspace(MessageContents& message, std::size_t length_bytes) noexcept;

/// Returns whether the values of an attribute, whose shared datatype has values of `value_bytes`, go beyond
/// its end.
bool values_beyond_attribute(std::span<const std::byte> body, std::uint64_t value_bytes,
                             const NumberWidths& widths);

}  // namespace h5feed
