// SPDX-License-Identifier: Apache-2.0
// Reads the superblock of an HDF5 file without libhdf5, to check a file and to explain why it is refused.
#pragma once

#include <cstddef>
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
  bool open_for_swmr = false;      ///< Marked as open by an SWMR writer (single writer, multiple readers)
  std::size_t address_bytes = 8;   ///< Bytes of an address in the file
  std::size_t length_bytes = 8;    ///< Bytes of a length in the file
  std::uint64_t base_address = 0;  ///< Where the superblock was when the file was last written
  std::uint64_t root_header = 0;   ///< Address of the root group's object header, behind the user block
  /// Address of the superblock extension's object header, behind the user block; empty if there is none.
  std::optional<std::uint64_t> extension = {};
};

/// Returns the number that stands for no address in a file whose addresses have `bytes` bytes.
constexpr std::uint64_t undefined_address(std::size_t bytes) noexcept {
  return bytes < 8 ? (std::uint64_t{1} << (8 * bytes)) - 1 : ~std::uint64_t{0};
}

/// Reads the superblock. Returns empty if there is no HDF5 signature, the version is unknown, or addresses or
/// lengths do not have 2, 4 or 8 bytes. Verifies nothing else. Blocks. Throws FileError on read errors.
std::optional<Superblock> read_superblock(const ByteSource& source);

/// Returns whether the superblock is of a known version and has addresses or lengths of 16 or 32 bytes, which
/// libhdf5 reads and `read_superblock` does not. Blocks. Throws FileError on read errors.
bool has_wide_numbers(const ByteSource& source);

/// Returns whether the file is marked as open by a SWMR writer, which may have been killed. Blocks. Throws
/// FileError on read errors.
bool has_swmr_writer(const ByteSource& source);

/// Returns whether the file is marked as open by a writer without SWMR mode, which may have been killed; only
/// files of version 3 are. Blocks. Throws FileError on read errors.
bool left_open(const ByteSource& source);

/// Returns whether the HDF5 signature is at an offset where libhdf5 looks for it: byte 0, 512, 1024, 2048, …
/// Blocks. Throws FileError on read errors.
bool has_hdf5_signature(const ByteSource& source);

}  // namespace h5feed
