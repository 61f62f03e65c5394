// SPDX-License-Identifier: Apache-2.0
// Links and attributes of newer files that are too many for an object header: a heap holds them, and a B-tree
// lists their ids in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "store/format/object_header.hpp"

namespace h5feed {

/// Returns what is wrong with how a group stores many links, of which its link info message, with the
/// contents `info`, tells; empty if nothing is, or if it stores them otherwise. libhdf5 1.10 believes the
/// header of the heap, and follows ids out of the heap. Reads all nodes of the tree that lists the names.
/// Throws FileError if the source cannot be read.
std::string link_storage_damage(const MetadataBytes& bytes, std::span<const std::byte> info);

/// Facts of the file and a check of each attribute, for `attribute_storage_damage`.
struct AttributeChecks {
  bool may_be_shared = false;  ///< The file has a table of shared messages
  /// Returns what is wrong with an attribute, which is stored as in a message of an object header.
  std::function<std::string(std::span<const std::byte>)> contents;
};

/// Returns what is wrong with how an object stores many attributes, of which its attribute info message, with
/// the contents `info`, tells; empty if nothing is, or if it stores them otherwise. Not examined are
/// attributes that are shared, in a heap with filters, or above 16 MiB. Throws FileError if the source cannot
/// be read.
std::string attribute_storage_damage(const MetadataBytes& bytes, std::span<const std::byte> info,
                                     const AttributeChecks& checks);

}  // namespace h5feed
