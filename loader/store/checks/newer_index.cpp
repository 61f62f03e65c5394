// SPDX-License-Identifier: Apache-2.0
// The layouts are those of the HDF5 File Format Specification, sections VII.C and VII.D.
#include "store/checks/newer_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "store/checks/new_tree.hpp"

namespace h5feed {
namespace {

// As many elements as chunks that are listed (chunk_index.cpp): more take seconds to visit, and a small file
// must not make libhdf5 visit very many.
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 26;
constexpr std::uint64_t kElementsOfAnyFile = std::uint64_t{1} << 20;

// The chunks that an index lists.
struct IndexedChunks {
  std::uint64_t rank = 0;
  std::uint64_t decoded_bytes = 1;  // Of a chunk
  std::uint64_t count = 0;          // Of the dataset at its largest; 0 if not known
  bool filtered = false;            // Each has a size and a filter mask of its own
};

// Returns the stored bytes of an element of an array of chunks: its address, and with filters its size and
// mask.
std::uint64_t element_bytes(const IndexedChunks& chunks, std::uint64_t address_bytes) {
  constexpr std::uint64_t kMaskBytes = 4, kMostSizeBytes = 8;
  if (!chunks.filtered) return address_bytes;
  const auto bits =
      static_cast<std::uint64_t>(std::bit_width(std::max<std::uint64_t>(chunks.decoded_bytes, 1)));
  return address_bytes + std::min(1 + (bits + 7) / 8, kMostSizeBytes) + kMaskBytes;
}

// Checks what the headers of both kinds of arrays begin with: signature, version, kind, bytes of an element.
std::string element_damage(const std::vector<std::byte>& head, std::uint64_t address,
                           const IndexedChunks& chunks, std::uint64_t address_bytes) {
  const std::uint64_t kind = number_in(head, 5, 1), bytes = number_in(head, 6, 1);
  const std::uint64_t expected_kind = chunks.filtered ? 1 : 0,
                      expected = element_bytes(chunks, address_bytes);
  if (kind == expected_kind && bytes == expected) return {};
  return fmt::format(
      "the array of chunks at byte {} has elements of kind {} with {} bytes, where kind {} with {} belongs",
      address, kind, bytes, expected_kind, expected);
}

TreeRecords tree_records(const IndexedChunks& chunks, std::uint64_t address_bytes) {
  constexpr unsigned kChunks = 10, kFilteredChunks = 11;
  return {chunks.filtered ? kFilteredChunks : kChunks,
          element_bytes(chunks, address_bytes) + sizeof(std::uint64_t) * chunks.rank};
}

std::string fixed_array_damage(const MetadataBytes& bytes, std::uint64_t address,
                               const IndexedChunks& chunks) {
  // After the size of an element: bits of a page, number of elements.
  constexpr std::size_t kElementsAt = 8;
  const std::vector<std::byte> head = bytes.head(address, "FAHD", kElementsAt + bytes.length_bytes());
  if (head.empty()) return {};
  if (std::string damage = element_damage(head, address, chunks, bytes.address_bytes()); !damage.empty())
    return damage;
  const std::uint64_t elements = number_in(head, kElementsAt, bytes.length_bytes());
  if (elements < chunks.count) {
    return fmt::format("the array of chunks at byte {} claims {} elements, for {} chunks of the dataset",
                       address, elements, chunks.count);
  }
  // The file has at least one byte for each.
  if (elements <= kElementsOfAnyFile + bytes.left(0)) return {};
  return fmt::format("the array of chunks at byte {} claims {} elements, more than the file has bytes",
                     address, elements);
}

std::string extensible_array_damage(const MetadataBytes& bytes, std::uint64_t address,
                                    const IndexedChunks& chunks) {
  // After the size of an element: bits of their number, elements in the index block and in the smallest data
  // block, pointers in the smallest super block, bits of a page; then six numbers, the fifth of which is that
  // of the elements up to the last one that was set.
  constexpr std::size_t kNumbersAt = 12;
  const std::size_t last_set_at = kNumbersAt + 4 * bytes.length_bytes();
  const std::vector<std::byte> head = bytes.head(address, "EAHD", last_set_at + bytes.length_bytes());
  if (head.empty()) return {};
  if (std::string damage = element_damage(head, address, chunks, bytes.address_bytes()); !damage.empty())
    return damage;
  const std::uint64_t bits = number_in(head, 7, 1), block = number_in(head, 9, 1);
  const std::uint64_t pointers = number_in(head, 10, 1);
  // libhdf5 writes powers of two, takes their logarithms, and allocates as many blocks as these leave.
  if (bits == 0 || bits > 64 || !std::has_single_bit(block) || !std::has_single_bit(pointers)) {
    return fmt::format(
        "the array of chunks at byte {} claims blocks of {} elements and {} pointers for numbers of {} bits",
        address, block, pointers, bits);
  }
  const std::uint64_t elements = number_in(head, last_set_at, bytes.length_bytes());
  if (elements <= std::min(kMostElements, kElementsOfAnyFile + bytes.left(0))) return {};
  return fmt::format("the array of chunks at byte {} claims {} elements, more than can be visited", address,
                     elements);
}

// libhdf5 writes such an index only for a dataset that cannot grow beyond its chunk, and takes that for each
// of several chunks.
std::string single_chunk_damage(const IndexedChunks& chunks) {
  if (chunks.count <= 1) return {};
  return fmt::format("the index of its chunks is one for a single chunk, for {} chunks of the dataset",
                     chunks.count);
}

// The chunks of the dataset at its largest lie behind each other.
std::string implicit_damage(const MetadataBytes& bytes, std::uint64_t address, const IndexedChunks& chunks) {
  const std::uint64_t left = bytes.left(address);
  if (left == 0 || chunks.count == 0 || chunks.decoded_bytes <= left / chunks.count) return {};
  return fmt::format("its {} chunks of {} bytes from byte {} on go beyond the end of the file", chunks.count,
                     chunks.decoded_bytes, address);
}

}  // namespace

std::string newer_index_damage(const MetadataBytes& bytes, std::span<const std::byte> layout,
                               const ChunkedData& data) {
  // Version, class, flags, extents and bytes of each, extents, kind of index, its parameters, its address.
  // The last extent is the size of an element.
  constexpr std::size_t kExtentsAt = 5;
  const auto extents = static_cast<std::size_t>(number_in(layout, 3, 1));
  const auto width = static_cast<std::size_t>(number_in(layout, 4, 1));
  if (extents == 0 || width == 0 || width > sizeof(std::uint64_t))
    return fmt::format("its chunks have {} extents of {} bytes", extents, width);
  IndexedChunks chunks{.rank = extents - 1, .filtered = data.filtered};
  if (data.extents.size() == chunks.rank) chunks.count = 1;
  for (std::size_t i = 0; i < extents; ++i) {
    const std::uint64_t extent = number_in(layout, kExtentsAt + i * width, width);
    if (extent == 0) return "one of the extents of its chunks, or the size of an element, is 0";
    chunks.decoded_bytes *= extent;
    if (i == chunks.rank || chunks.count == 0) continue;
    const std::uint64_t along = data.extents[i] / extent + (data.extents[i] % extent != 0 ? 1 : 0);
    if (__builtin_mul_overflow(chunks.count, along, &chunks.count)) chunks.count = ~std::uint64_t{0};
  }
  const std::size_t kind_at = kExtentsAt + extents * width;
  const auto address = [&](std::size_t parameters) {
    return bytes.address_in(layout, kind_at + 1 + parameters);
  };
  constexpr std::uint64_t kSingle = 1, kImplicit = 2, kFixedArray = 3, kExtensibleArray = 4, kNewTree = 5;
  switch (number_in(layout, kind_at, 1)) {
    case kSingle:
      return single_chunk_damage(chunks);
    case kImplicit:
      return data.may_grow ? std::string() : implicit_damage(bytes, address(0), chunks);
    case kFixedArray:
      return fixed_array_damage(bytes, address(1), chunks);
    case kExtensibleArray:
      return extensible_array_damage(bytes, address(5), chunks);
    case kNewTree:
      return new_tree_damage(bytes, address(6), tree_records(chunks, bytes.address_bytes()));
    default:
      return {};
  }
}

}  // namespace h5feed
