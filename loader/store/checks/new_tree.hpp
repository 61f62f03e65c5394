// SPDX-License-Identifier: Apache-2.0
// B-trees of version 2, which list links, attributes and chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "store/format/object_header.hpp"

namespace h5feed {

/// The kind and the size of the records in a version 2 B-tree.
struct TreeRecords {
  unsigned kind = 0;               ///< Number of its kind in the file format
  std::uint64_t record_bytes = 0;  ///< Stored bytes of a record
};

/// Returns what is wrong with the stored bytes of a record; empty if nothing is.
using RecordCheck = std::function<std::string(std::span<const std::byte> record)>;

/// Returns what is wrong with the version 2 B-tree at `address`, which should hold `records`; empty if
/// nothing is, or if there is none. libhdf5 divides by the size of a record, believes how many records a node
/// has, and may ask for memory for as many as the tree claims. Reads the header and all nodes but the leaves;
/// with `check`, the leaves as well, and what that says of a record. Throws FileError if the source cannot be
/// read.
std::string new_tree_damage(const MetadataBytes& bytes, std::uint64_t address, const TreeRecords& records,
                            const RecordCheck& check = {});

}  // namespace h5feed
