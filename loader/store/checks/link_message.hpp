// SPDX-License-Identifier: Apache-2.0
// Links in object headers and heaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "store/format/message_contents.hpp"

namespace h5feed {

/// Error text for a group in which `read_link_message` cannot read a link.
inline constexpr const char* kBadLink = "a group has a link that cannot be decoded";

/// The part of a link message by which objects of the file are found.
struct LinkMessage {
  /// Address of the object header that a hard link names; nothing for other links.
  std::optional<std::uint64_t> target;
};

/// Reads a link message (HDF5 File Format Specification, section IV.A.2.g); nothing if libhdf5 cannot decode
/// it, over which version 1.10 crashes where it lists the links of a group.
std::optional<LinkMessage> read_link_message(std::span<const std::byte> body, const NumberWidths& widths);

}  // namespace h5feed
