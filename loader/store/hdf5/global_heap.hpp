// SPDX-License-Identifier: Apache-2.0
// Reads values of variable length without libhdf5: objects of global heap collections (HDF5 File Format
// Specification, section III.E, "Disk Format: Level 1E - Global Heap").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>

#include "store/format/byte_source.hpp"
#include "store/isolation/wire.hpp"

namespace h5feed {

/// Parameters of a file's global heaps, from its superblock.
struct HeapFormat {
  std::uint64_t base_address = 0;  ///< Where data starts, after the user block; addresses are relative to it
  std::size_t address_bytes = 8;   ///< Bytes of an address in the file
  std::size_t length_bytes = 8;    ///< Bytes of a length in the file

  /// Returns the bytes of a reference in a dataset: length, address and object number.
  std::size_t reference_bytes() const noexcept { return 8 + address_bytes; }
};

template <>
struct WireMembers<HeapFormat> {
  static auto of(auto& v) { return std::tie(v.base_address, v.address_bytes, v.length_bytes); }
  /// Returns whether addresses and lengths have sizes that HDF5 writes.
  static bool valid(const HeapFormat& format) {
    const auto usual = [](std::size_t bytes) { return bytes == 2 || bytes == 4 || bytes == 8; };
    return usual(format.address_bytes) && usual(format.length_bytes);
  }
};

/// Location of a variable-length value.
struct HeapReference {
  std::uint64_t address = 0;  ///< Address of the heap collection in the file; 0 if there is no value
  std::uint32_t bytes = 0;    ///< Number of elements: bytes if an element has one byte
  std::uint32_t object = 0;   ///< Object number within the collection
};

/// Parses a stored reference. `stored` must have `format.reference_bytes()` bytes.
HeapReference read_reference(std::span<const std::byte> stored, const HeapFormat& format) noexcept;

/// Reads a value into `out` and returns the bytes read from the file; usually takes two reads. `out.size()`
/// is the value's size in bytes. Reads are bounded by the file's size. Blocks. Throws FileError on I/O
/// errors, FilterError if the bytes are not a valid heap.
std::uint64_t read_heap_object(const ByteSource& source, const HeapFormat& format,
                               const HeapReference& reference, std::span<std::byte> out);

}  // namespace h5feed
