// SPDX-License-Identifier: Apache-2.0
// What the messages of a dataset's object header say, also where they refer to other headers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "store/format/object_header.hpp"

namespace h5feed {

/// Returns the message of this type that libhdf5 reads, the first one; empty if there is none.
std::optional<HeaderMessage> first_of(const ObjectHeader& header, unsigned type);

/// Returns whether the header has filters; empty if that is not known, because the message is in the file's
/// table of shared ones or not where the header says. Throws FileError if the source cannot be read.
std::optional<bool> has_filters(const MetadataBytes& bytes, const ObjectHeader& header);

/// Returns the size of a value of the datatype; 0 if it is not known. Throws like `has_filters`.
std::uint64_t value_bytes_of(const MetadataBytes& bytes, const ObjectHeader& header);

/// Returns the larger one of each extent and its limit in the dataspace; empty if it is not known. Throws
/// like `has_filters`.
std::vector<std::uint64_t> largest_extents(const MetadataBytes& bytes, const ObjectHeader& header);

}  // namespace h5feed
