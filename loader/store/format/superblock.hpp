// SPDX-License-Identifier: Apache-2.0
// The first bytes of an HDF5 file, read without libhdf5: why a file that libhdf5 refuses is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "store/format/byte_source.hpp"

namespace h5feed {

/// What the superblock says (HDF5 File Format Specification, "Format Superblock").
struct Superblock {
  std::uint64_t user_block_bytes = 0;  ///< bytes before it
  std::uint64_t end_of_file = 0;       ///< size the file had when it was written last
  bool open_for_write = false;         ///< marked as open by a writer; version 3 only
  /// Name of the driver that wrote the file in several parts, of which this is one: "family", "multi" (also
  /// for split files). Empty for a file on its own.
  std::string_view driver = {};
  bool open_for_swmr = false;  ///< by one that others may read beside (single writer, multiple readers)
};

/// Empty when there is no HDF5 signature, or the version is unknown. Nothing else is verified.
/// Throws FileError on read errors.
std::optional<Superblock> read_superblock(const ByteSource& source);

/// Whether the HDF5 signature is where libhdf5 looks for it: at byte 0, 512, 1024, 2048, …
bool has_hdf5_signature(const ByteSource& source);

}  // namespace h5feed
