// SPDX-License-Identifier: Apache-2.0
// Checks of a file's structure before libhdf5 reads it: damage over which libhdf5 loops, recurses without end
// or crashes, instead of an error. Nothing here refuses a file that libhdf5 can read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/format/byte_source.hpp"

namespace h5feed {

/// Returns why nothing below examines the file ("it has a metadata cache image"); empty if it is examined.
/// From such an image (HDF5 File Format Specification, section IV.A.2.y) libhdf5 takes structures instead of
/// from where they are stored; version 1.10 crashes over damaged ones, and may fail to close a file with an
/// intact one. Blocks. Throws like `structure_damage`.
std::string_view why_not_examined(const ByteSource& source);

/// Returns what is wrong with the superblock, the header of the root group and its names, or with the
/// headers, their messages and the trees of groups that can be reached by hard links ("a node of the B-tree
/// at byte 136 is its own child"); empty if nothing is. Examines up to 1,024 objects, the nearest to the root
/// first; not the members of groups that keep their links in a heap, nor the names in other groups than the
/// root, which `header_damage` examines when they are opened. Blocks; here and below, what is read is bounded
/// in proportion to what the file stores (bounded_source.hpp). Calls `check_interrupt`.
/// Throws what that throws, and FileError if the source cannot be read.
std::string structure_damage(const ByteSource& source);

/// Returns what is wrong with the object header at `address`, behind the user block, with its messages, with
/// the tree and the names of a group, with the names of external files, and with the list of sources of a
/// virtual dataset, like `structure_damage`, but of any object. Blocks. Throws FileError if the source cannot
/// be read.
std::string header_damage(const ByteSource& source, std::uint64_t address);

/// Returns what is wrong with the size of the elements of chunks, and with the levels of the chunk index, of
/// the dataset whose object header is at `address`, behind the user block, or with the place of values that
/// lie in one piece; empty if nothing is, or if the object is no such dataset. Reads every node of a version
/// 1 B-tree except what its leaves hold. Blocks. Throws FileError if the source cannot be read.
std::string chunk_tree_damage(const ByteSource& source, std::uint64_t address);

}  // namespace h5feed
