// SPDX-License-Identifier: Apache-2.0
// Groups of the old format: a B-tree lists symbol tables, whose entries have their names in a local heap
// (HDF5 File Format Specification, sections III.B and IV.A.2.r); and the names of external files, which are
// in such a heap, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "store/format/object_header.hpp"

namespace h5feed {

/// Returns what is wrong with the tree of the group of which the contents `message` of its header's message
/// tell; empty if nothing is. Appends the addresses of its members' object headers until there are `most` or
/// a few more. Reads every node of the tree. Throws FileError if the source cannot be read.
std::string old_group_members(const MetadataBytes& bytes, std::span<const std::byte> message,
                              std::size_t most, std::vector<std::uint64_t>& members);

/// Returns what is wrong with the tree, the heap and the names of such a group; empty if nothing is. libhdf5
/// 1.10 uses names and the targets of soft links wherever an entry says they begin. Reads all of the tree and
/// of the symbol tables. Throws FileError if the source cannot be read.
std::string old_group_damage(const MetadataBytes& bytes, std::span<const std::byte> message);

/// Returns what is wrong with the heap of the names of the external files that the contents `message` of a
/// header's message list, and with where they begin; empty if nothing is. Throws FileError if the source
/// cannot be read.
std::string external_names_damage(const MetadataBytes& bytes, std::span<const std::byte> message);

}  // namespace h5feed
