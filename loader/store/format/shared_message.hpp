// SPDX-License-Identifier: Apache-2.0
// Messages that an object header only refers to, because several objects share them (HDF5 File Format
// Specification, section IV.A.2, "Shared Message").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "store/format/message_contents.hpp"

namespace h5feed {

/// Where a shared message is stored.
struct SharedPlace {
  bool in_table = false;     ///< In the file's table of shared messages
  std::uint64_t header = 0;  ///< Else: the address of the object header that has it
};

/// Takes a reference to a shared message; nothing if libhdf5 refuses its version.
std::optional<SharedPlace> take_shared_place(MessageContents& message, const NumberWidths& widths) noexcept;

/// The parts of an attribute before its values. They may end before what they claim to hold.
struct AttributeParts {
  MessageContents type;   ///< Begins with the datatype, or the reference to a shared one
  MessageContents space;  ///< Likewise with the dataspace
  bool shares_type = false;
  bool shares_space = false;
};

/// Takes the parts of an attribute before its values; nothing if libhdf5 refuses its version.
std::optional<AttributeParts> take_attribute_parts(MessageContents& message) noexcept;

}  // namespace h5feed
