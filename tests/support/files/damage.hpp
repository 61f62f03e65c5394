// SPDX-License-Identifier: Apache-2.0
// Damages files: in the old format, whose structures carry no checksums, and chunk indexes that carry one.
#pragma once

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "store/format/metadata_checksum.hpp"
#include "support/files/h5_test_file.hpp"

namespace h5feed::test {

/// Returns an integer as HDF5 stores its own, least significant byte first.
template <typename Number>
std::array<std::byte, sizeof(Number)> little_endian_bytes(Number number) {
  std::array<std::byte, sizeof(Number)> bytes;
  for (std::size_t i = 0; i < sizeof(Number); ++i) bytes[i] = static_cast<std::byte>(number >> (8 * i));
  return bytes;
}

/// Overwrites the bytes from `at` on with such an integer. Throws std::out_of_range if they are fewer.
template <typename Number>
void put_little_endian(std::vector<std::byte>& bytes, std::size_t at, Number number) {
  for (const std::byte byte : little_endian_bytes(number)) bytes.at(at++) = byte;
}

/// Replaces every run of bytes that equals `from` by `to`, which has the same length. Throws
/// std::runtime_error unless there are `times` such runs.
inline void replace_bytes(const std::filesystem::path& path, const std::vector<std::uint8_t>& from,
                          const std::vector<std::uint8_t>& to, int times = 1) {
  std::vector<std::byte> bytes = file_bytes(path);
  const auto same = [](std::byte a, std::uint8_t b) { return std::to_integer<std::uint8_t>(a) == b; };
  int found = 0;
  for (auto at = bytes.begin();
       (at = std::search(at, bytes.end(), from.begin(), from.end(), same)) != bytes.end(); ++at, ++found)
    std::ranges::transform(to, at, [](std::uint8_t b) { return std::byte{b}; });
  if (found != times) throw std::runtime_error("replace_bytes: found " + std::to_string(found) + " times");
  replace_file(path, bytes);
}

/// Replaces every 8-byte little-endian `from` in the file.
inline void replace_address(const std::filesystem::path& path, std::uint64_t from, std::uint64_t to) {
  std::vector<std::byte> bytes = file_bytes(path);
  const auto stored = little_endian_bytes(from);
  for (std::size_t i = 0; i + 8 <= bytes.size(); ++i) {
    if (std::memcmp(&bytes[i], stored.data(), 8) == 0) put_little_endian(bytes, i, to);
  }
  replace_file(path, bytes);
}

/// Overwrites word `place` of a filter's client data, which the file has once. Throws std::runtime_error if
/// it does not.
inline void damage_params(const std::filesystem::path& path, const std::vector<unsigned>& params,
                          std::size_t place, unsigned value) {
  std::vector<std::byte> bytes = file_bytes(path);
  std::vector<std::byte> words(params.size() * sizeof(unsigned));
  for (std::size_t i = 0; i < params.size(); ++i) put_little_endian(words, i * sizeof(unsigned), params[i]);
  const auto at = std::search(bytes.begin(), bytes.end(), words.begin(), words.end());
  if (at == bytes.end()) throw std::runtime_error("damage_params: no such parameters");
  put_little_endian(bytes, static_cast<std::size_t>(at - bytes.begin()) + place * sizeof(value), value);
  replace_file(path, bytes);
}

/// Damages the last data block of an extensible array ("EADB") or leaf of a version 2 B-tree ("BTLF") in the
/// file, so that its checksum is wrong. Throws std::out_of_range if there is none.
inline void tear_index(const std::filesystem::path& path, std::string_view signature) {
  constexpr std::size_t kAnyEntry = 30;
  std::vector<std::byte> bytes = file_bytes(path);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  bytes.at(std::min(text.rfind(signature), text.size()) + kAnyEntry) ^= std::byte{0xFF};
  replace_file(path, bytes);
}

/// Returns the address of an object's header in a file without a user block.
inline std::uint64_t header_address(const std::filesystem::path& path, const std::string& object) {
  const Hid file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  hobj_ref_t address = 0;
  require(H5Rcreate(&address, file.get(), object.c_str(), H5R_OBJECT, -1), "H5Rcreate");
  return address;
}

/// Makes libhdf5 unable to open an object: sets its header's version to 9.
inline void damage_header(const std::filesystem::path& path, const std::string& object) {
  const std::uint64_t address = header_address(path, object);
  std::vector<std::byte> bytes = file_bytes(path);
  bytes.at(address) = std::byte{9};
  replace_file(path, bytes);
}

/// Overwrites a number in the only chunk index of the file, a B-tree of one node over `rank` dimensions:
/// `offset` bytes behind the start of entry `entry`. Throws std::runtime_error if there is no such index.
inline void change_index(const std::filesystem::path& path, std::size_t rank, std::size_t entry,
                         std::size_t offset, std::uint64_t number) {
  constexpr std::size_t kHeaderBytes = 24;
  std::vector<std::byte> bytes = file_bytes(path);
  const std::vector<std::byte> chunk_node = {std::byte{'T'}, std::byte{'R'}, std::byte{'E'}, std::byte{'E'},
                                             std::byte{1}};
  const auto node = std::search(bytes.begin(), bytes.end(), chunk_node.begin(), chunk_node.end());
  if (node == bytes.end()) throw std::runtime_error("change_index: no index");
  // Entry: size and mask, offsets of the chunk with one for the bytes of elements, address.
  const std::size_t entry_bytes = 8 + (rank + 1) * 8 + 8;
  const auto at =
      static_cast<std::size_t>(node - bytes.begin()) + kHeaderBytes + entry * entry_bytes + offset;
  put_little_endian(bytes, at, number);
  replace_file(path, bytes);
}

/// Sets the first element of entry `entry` along dimension 0 to `first_row`; see `change_index`.
inline void move_chunk(const std::filesystem::path& path, std::size_t rank, std::size_t entry,
                       std::uint64_t first_row) {
  change_index(path, rank, entry, 8, first_row);
}

/// Sets the address of the bytes of entry `entry`; see `change_index`.
inline void set_chunk_address(const std::filesystem::path& path, std::size_t rank, std::size_t entry,
                              std::uint64_t address) {
  change_index(path, rank, entry, 8 + (rank + 1) * 8, address);
}

/// Sets the first coordinate, in chunks, of record `record` of the only version 2 B-tree of the file, which
/// has one leaf of `records` unfiltered chunks of a dataset of `rank` dimensions, and repairs the leaf's
/// checksum. Throws std::runtime_error if there is no such leaf.
inline void move_chunk_of_new_index(const std::filesystem::path& path, std::size_t rank, std::size_t records,
                                    std::size_t record, std::uint64_t first_chunk) {
  constexpr std::size_t kHeaderBytes = 6;
  const std::size_t record_bytes = 8 + 8 * rank;
  std::vector<std::byte> bytes = file_bytes(path);
  constexpr std::string_view kLeaf = "BTLF";
  const auto node = std::search(bytes.begin(), bytes.end(), kLeaf.begin(), kLeaf.end(),
                                [](std::byte a, char b) { return std::to_integer<char>(a) == b; });
  const auto start = static_cast<std::size_t>(node - bytes.begin());
  const std::size_t end = start + kHeaderBytes + records * record_bytes;
  if (end + 4 > bytes.size()) throw std::runtime_error("move_chunk_of_new_index: no such leaf");
  put_little_endian(bytes, start + kHeaderBytes + record * record_bytes + 8, first_chunk);
  put_little_endian(bytes, end, metadata_checksum(std::span(bytes).subspan(start, end - start)));
  replace_file(path, bytes);
}

}  // namespace h5feed::test
