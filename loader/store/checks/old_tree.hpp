// SPDX-License-Identifier: Apache-2.0
// B-trees of version 1 (HDF5 File Format Specification, section III.A.1), which list the symbol tables of a
// group, or the chunks of a dataset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "store/format/object_header.hpp"

namespace h5feed {

/// The kind and the size of the keys of a version 1 B-tree.
struct OldTree {
  enum Kind : unsigned { group = 0, chunks = 1 };  ///< As the file format numbers them
  Kind kind = group;
  std::size_t key_bytes = 0;  ///< Stored bytes of a key
};

/// What `old_tree_damage` is to do with the contents of the nodes of a B-tree. It reads them only for the
/// members that are set.
struct OldTreeVisit {
  /// Gets the addresses that the leaves name, in their order.
  std::vector<std::uint64_t>* leaf_children = nullptr;
  /// Returns what is wrong with the stored bytes of a key; empty if nothing is.
  std::function<std::string(std::span<const std::byte> key)> check_key = {};
};

/// Returns what is wrong with the version 1 B-tree at `root` ("the B-tree at byte 136 has the node at byte
/// 136 twice"); empty if nothing is, or if there is no such tree. Each node has to be one level below its
/// parent, and to have one parent only: libhdf5 recurses without end otherwise. Reads the head of every node,
/// and the contents of those that have nodes below them or are to be visited. Throws FileError if the source
/// cannot be read.
std::string old_tree_damage(const MetadataBytes& bytes, const OldTree& tree, std::uint64_t root,
                            const OldTreeVisit& visit = {});

}  // namespace h5feed
