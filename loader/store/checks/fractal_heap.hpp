// SPDX-License-Identifier: Apache-2.0
// Heaps in which groups and objects of newer files keep many links and attributes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/checks/new_tree.hpp"
#include "store/format/object_header.hpp"

namespace h5feed {

/// A fractal heap (HDF5 File Format Specification, section III.G), as far as libhdf5 1.10 believes it.
/// Borrows the bytes. Not thread-safe.
class FractalHeap {
 public:
  /// Reads the header at `address` of a heap whose objects are named by `id_bytes` bytes. Throws FileError if
  /// the source cannot be read.
  FractalHeap(const MetadataBytes& bytes, std::uint64_t address, std::size_t id_bytes);

  /// Returns what is wrong with the header; empty if nothing is, or if there is no heap. With damage, nothing
  /// else may be called.
  std::string damage();

  /// Returns what is wrong with where `id` leads: to an object that the heap has no room for, or has none of
  /// the kind. Empty also for an id that libhdf5 refuses. Throws FileError if the source cannot be read.
  std::string damage_of(std::span<const std::byte> id);

  /// Returns the bytes of the object that `id` names, in which `damage_of` found nothing; nothing if the heap
  /// has filters, for objects above 16 MiB, and for an id that leads nowhere. Throws FileError if the source
  /// cannot be read.
  std::vector<std::byte> object(std::span<const std::byte> id) const;

 private:
  // A part of the heap's space that is stored in one piece.
  struct Block {
    std::uint64_t offset = 0;  // In the space of the heap
    std::uint64_t bytes = 0;
    std::uint64_t address = 0;
  };
  // Where an object is: an offset in the space of the heap, or of a huge object, which is stored by itself,
  // an address.
  struct Place {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
  };
  // What leads to an object: the damage on the way to it, or its block, if there is one.
  struct Found {
    std::string damage;
    std::optional<Block> block;
  };

  std::string damage_of_sizes() const;
  std::string damage_of_managed(std::span<const std::byte> id);
  // Whether ids hold the addresses of huge objects themselves, without a tree that lists them.
  bool names_huge_directly() const;
  TreeRecords huge_records() const;
  std::optional<Place> huge_place(std::span<const std::byte> id) const;
  std::size_t offset_bytes() const;
  std::size_t size_bytes() const;
  Place place_of(std::span<const std::byte> id) const;
  // The block with that byte of the space, if it was examined.
  const Block* sound_block_at(std::uint64_t offset) const;
  // Bytes of the space in so many rows of blocks.
  std::uint64_t space_in(std::uint64_t rows) const;
  std::uint64_t block_bytes(std::uint64_t row) const;
  unsigned first_row_bits() const;
  // Rows of blocks that hold objects, in a table of blocks; those behind them are tables of blocks.
  std::uint64_t direct_rows() const;
  // Finds the block that holds a byte of the space.
  Found block_at(std::uint64_t offset) const;
  // What is wrong with a block of objects ("FHDB") or a table of blocks ("FHIB").
  std::string damage_of_block(const Block& block, std::string_view signature) const;

  const MetadataBytes& bytes_;
  const std::uint64_t address_;
  const std::size_t id_bytes_;
  bool exists_ = false;
  bool filtered_ = false;
  bool has_checksums_ = false;
  std::uint64_t stored_id_bytes_ = 0;
  std::uint64_t largest_object_ = 0;
  std::uint64_t huge_tree_ = 0;
  std::uint64_t huge_objects_ = 0;
  std::uint64_t width_ = 0;  // Blocks of a row
  std::uint64_t first_block_bytes_ = 0;
  std::uint64_t largest_block_bytes_ = 0;
  std::uint64_t space_bits_ = 0;
  std::uint64_t root_ = 0;
  std::uint64_t root_rows_ = 0;                  // 0: the root is a block of objects
  std::map<std::uint64_t, Block> sound_blocks_;  // Those that were examined, by offset
  // Huge objects that ids name by a number, in its order.
  std::vector<std::pair<std::uint64_t, Place>> huge_places_;
};

}  // namespace h5feed
