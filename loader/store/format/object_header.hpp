// SPDX-License-Identifier: Apache-2.0
// Reads the messages of object headers without libhdf5, from files that may be hostile (HDF5 File Format
// Specification, section IV.A, "Data Object Headers").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/format/byte_source.hpp"
#include "store/format/superblock.hpp"

namespace h5feed {

/// Returns whether `bytes` begin with the signature `text`.
bool begins_with(std::span<const std::byte> bytes, std::string_view text) noexcept;

/// Returns the little-endian number of `count` bytes, at most 8, that begins at byte `at`; 0 if `bytes` end
/// before.
std::uint64_t number_in(std::span<const std::byte> bytes, std::size_t at, std::size_t count) noexcept;

/// The metadata of a file, by addresses that begin behind its user block. Borrows the source.
class MetadataBytes {
 public:
  MetadataBytes(const ByteSource& source, const Superblock& block) : source_(source), block_(block) {}

  /// Returns up to `count` bytes from `address` on: fewer at the end of the file, none outside of it or for
  /// an undefined address. Throws FileError if the source cannot be read.
  std::vector<std::byte> read(std::uint64_t address, std::size_t count) const;

  /// Returns the first `count` bytes at `address`; none if there are fewer, or if they do not begin with the
  /// signature. Throws FileError if the source cannot be read.
  std::vector<std::byte> head(std::uint64_t address, std::string_view signature, std::size_t count) const;

  /// Returns the bytes of the file from `address` on; 0 outside of it or for an undefined address.
  std::uint64_t left(std::uint64_t address) const noexcept;

  /// Returns the address behind the bytes that the superblock counts to the file. libhdf5 reads none from
  /// there on, unless the file is open for SWMR writing.
  std::uint64_t end() const noexcept { return block_.end_of_file - block_.base_address; }

  /// Returns the address that begins at byte `at` of `bytes`; the undefined one if they end before.
  std::uint64_t address_in(std::span<const std::byte> bytes, std::size_t at) const noexcept;

  std::size_t address_bytes() const noexcept { return block_.address_bytes; }
  std::size_t length_bytes() const noexcept { return block_.length_bytes; }

 private:
  const ByteSource& source_;
  const Superblock& block_;
};

/// A message of an object header.
struct HeaderMessage {
  /// Numbers of the messages that h5feed looks at.
  enum Type : unsigned {
    dataspace = 1,
    link_info = 2,
    datatype = 3,
    old_fill_value = 4,
    fill_value = 5,
    link = 6,
    external_files = 7,
    layout = 8,
    filters = 11,
    attribute = 12,
    comment = 13,
    old_time = 14,
    shared_table = 15,
    continuation = 16,
    old_group = 17,
    time = 18,
    tree_sizes = 19,
    driver = 20,
    attribute_info = 21,
    references = 22,
    image = 24  // The last one
  };

  unsigned type = 0;
  /// `body` says where the message is stored, instead of what it is. Only some types can be shared; libhdf5
  /// ignores the mark of others.
  bool shared = false;
  std::vector<std::byte> body;  ///< Bytes of the message
};

/// The messages of one object header.
struct ObjectHeader {
  std::vector<HeaderMessage> messages;  ///< Those of the types that h5feed looks at
  /// Describes the damage: "the object header at byte 96 …"; empty for an intact header. `messages` ends
  /// before the damage.
  std::string damage;
  /// Whether libhdf5 could loop or read out of bounds over the damage, instead of an error.
  bool hazardous = false;
};

/// Reads the object header at `address`. One of more than 64 MiB, or with more than 2^18 messages, counts as
/// damaged and hazardous: libhdf5 writes 65,535 attributes and as many links into one at most. Returns no
/// messages if there is no header: libhdf5 may have it in memory, if this process writes the file, and else
/// says so. Throws FileError if the source cannot be read.
ObjectHeader read_object_header(const MetadataBytes& bytes, std::uint64_t address);

}  // namespace h5feed
