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
/// of `rank` dimensions (0: not known): "its sources, in the heap at byte 2048, go beyond the end of their
/// list"; empty if nothing is, if there is no heap where the message says or a newer kind of list than
/// libhdf5 reads, which it refuses itself, or if the dataset is no virtual one. Blocks while the heap's
/// collection is read. Throws FileError if the source cannot be read. See the HDF5 File Format Specification,
/// sections III.E "Global Heap" and IV.A.2.i "Data Layout".
std::string virtual_mapping_damage(const MetadataBytes& bytes, std::span<const std::byte> layout,
                                   std::size_t rank);

}  // namespace h5feed
