// SPDX-License-Identifier: Apache-2.0
// Reads the superblock of an HDF5 file without libhdf5, to explain why libhdf5 refuses a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "store/format/byte_source.hpp"

namespace h5feed {

/// Fields of the superblock (HDF5 File Format Specification, "Format Superblock").
struct Superblock {
  std::uint64_t user_block_bytes = 0;  ///< Bytes before the superblock
  std::uint64_t end_of_file = 0;       ///< File size when the file was last written
  bool open_for_write = false;         ///< Marked as open by a writer; version 3 only
  /// Name of the driver that split the file into several parts, of which this is one: "family" or "multi"
  /// (also used for split files). Empty for a file in one part.
  std::string_view driver = {};
  bool open_for_swmr = false;  ///< Marked as open by an SWMR writer (single writer, multiple readers)
};

/// Reads the superblock. Returns empty if there is no HDF5 signature or the version is unknown. Verifies
/// nothing else. Blocks. Throws FileError on read errors.
std::optional<Superblock> read_superblock(const ByteSource& source);

/// Returns whether the HDF5 signature is at an offset where libhdf5 looks for it: byte 0, 512, 1024, 2048, …
/// Blocks. Throws FileError on read errors.
bool has_hdf5_signature(const ByteSource& source);

}  // namespace h5feed
