// SPDX-License-Identifier: Apache-2.0
// Values of variable length in attributes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "store/checks/global_heap.hpp"
#include "store/format/message_contents.hpp"
#include "store/format/object_header.hpp"

namespace h5feed {

/// Returns what is wrong with the values of an attribute whose datatype, which begins at `type`, is of
/// variable length; empty if nothing is, or for other datatypes. `values` are `count` times the number of
/// elements and the place in `heap` of a value. libhdf5 asks for as much memory as a value claims, and copies
/// all of the object there. Not examined are values within others, and attributes in the table of shared
/// messages. Throws FileError if the source cannot be read.
std::string attribute_values_damage(const MetadataBytes& bytes, GlobalHeap& heap,
                                    std::span<const std::byte> type, MessageContents values,
                                    std::uint64_t count);

}  // namespace h5feed
