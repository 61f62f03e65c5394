// SPDX-License-Identifier: Apache-2.0
// Values of variable length, read without libhdf5: objects of global heap collections (HDF5 File Format
// Specification, section III.E, "Disk Format: Level 1E - Global Heap").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "store/format/byte_source.hpp"

namespace h5feed {

/// Of a file, from its superblock.
struct HeapFormat {
  std::uint64_t base_address = 0;  ///< of the file's data, behind the user block: addresses count from it
  std::size_t address_bytes = 8;
  std::size_t length_bytes = 8;

  /// Bytes of a reference in a dataset: length, address, number.
  std::size_t reference_bytes() const noexcept { return 8 + address_bytes; }
};

/// Where a value lies.
struct HeapReference {
  std::uint64_t address = 0;  ///< of the collection, in the file; 0 where there is no value
  std::uint32_t bytes = 0;    ///< of the value, of single-byte elements
  std::uint32_t object = 0;   ///< number within the collection
};

/// `stored` has `format.reference_bytes()` bytes.
HeapReference read_reference(std::span<const std::byte> stored, const HeapFormat& format) noexcept;

/// Reads a value into `out`, `reference.bytes` long; two reads of the file as a rule. Bytes that are no heap
/// throw FilterError, bounded by the file's size in what is read. Blocks. Throws FileError.
/// Returns the bytes read.
std::uint64_t read_heap_object(const ByteSource& source, const HeapFormat& format,
                               const HeapReference& reference, std::span<std::byte> out);

}  // namespace h5feed
