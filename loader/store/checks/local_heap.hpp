// SPDX-License-Identifier: Apache-2.0
// Local heaps (HDF5 File Format Specification, section III.D), which hold the names of the links in a group
// of the old format, and of external files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "store/format/object_header.hpp"

namespace h5feed {

/// The texts of a local heap. Not thread-safe.
class LocalHeap {
 public:
  /// Reads the header of the heap at `address` and its list of free blocks. A heap without a signature has
  /// neither damage nor texts that could be examined: libhdf5 may have it in memory, or says so. Borrows
  /// `bytes`. Throws FileError if the source cannot be read.
  LocalHeap(const MetadataBytes& bytes, std::uint64_t address);

  /// Returns what is wrong with the heap; empty if nothing is. libhdf5 1.10 reads as many bytes as the heap
  /// claims, follows its list of free blocks in circles, and reads free blocks beyond its end.
  const std::string& damage() const noexcept { return damage_; }

  /// Returns whether a text that begins at byte `offset` of the heap ends within it. libhdf5 1.10 uses the
  /// texts of heaps without asking. True where the heap cannot be examined.
  bool holds_text(std::uint64_t offset) const noexcept { return !examined_ || offset < end_of_texts_; }

  /// Returns whether the text that begins at byte `offset` is empty; false where there is none. Throws
  /// FileError if the source cannot be read.
  bool is_empty(std::uint64_t offset) const;

  /// Returns whether `offset` lies within the heap, and a text that begins there does not end in it; libhdf5
  /// itself refuses offsets beyond the heap.
  bool overruns(std::uint64_t offset) const noexcept {
    return examined_ && offset < size_ && offset >= end_of_texts_;
  }

 private:
  std::string damage_of_free_blocks(std::uint64_t first) const;
  std::uint64_t find_end_of_texts() const;

  const MetadataBytes& bytes_;
  std::uint64_t address_ = 0;
  std::uint64_t segment_ = 0;  // Address of the bytes of the heap
  std::uint64_t size_ = 0;
  std::uint64_t end_of_texts_ = 0;  // Behind the last zero
  bool examined_ = false;
  std::string damage_;
};

}  // namespace h5feed
