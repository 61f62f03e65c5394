// SPDX-License-Identifier: Apache-2.0
// Checks the sources of a virtual dataset before libhdf5 gets them: 1.10 reads their list without asking
// where it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "store/format/object_header.hpp"

namespace h5feed {

/// Returns what is wrong with the list of sources that the layout message `layout` refers to, for a dataset
/// of `rank` dimensions (0: not known): "has sources that go beyond their list"; empty if nothing is, if the
/// list is not where the message says, which libhdf5 notices itself, or if the dataset is no virtual one.
/// Blocks while the list is read. Throws FileError if the source cannot be read (HDF5 File Format
/// Specification, section IV.A.2.i "Data Layout" and III.E "Global Heap").
std::string virtual_mapping_damage(const MetadataBytes& bytes, std::span<const std::byte> layout,
                                   std::size_t rank);

}  // namespace h5feed
