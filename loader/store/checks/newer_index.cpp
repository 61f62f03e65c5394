// SPDX-License-Identifier: Apache-2.0
// The layouts are those of the HDF5 File Format Specification, sections III.A.2, VII.C and VII.D.
#include "store/checks/newer_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "store/format/superblock.hpp"

namespace h5feed {
namespace {

// A tree of that depth has more records than a file can have bytes.
constexpr std::uint64_t kDeepestTree = 64;

// As many elements as chunks that are listed (chunk_index.cpp): more take seconds to visit, and a small file
// must not make libhdf5 visit very many.
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 26;
constexpr std::uint64_t kElementsOfAnyFile = std::uint64_t{1} << 20;

// Returns the first `count` bytes at `address`; none if they do not begin with the signature.
std::vector<std::byte> head_at(const MetadataBytes& bytes, std::uint64_t address, std::string_view signature,
                               std::size_t count) {
  std::vector<std::byte> head = bytes.read(address, count);
  if (head.size() < count || !begins_with(head, signature)) head.clear();
  return head;
}

// Returns the bytes in which libhdf5 stores numbers up to `most`.
std::uint64_t width_for(std::uint64_t most) {
  return (std::bit_width(std::max<std::uint64_t>(most, 1)) - 1) / 8 + 1;
}

// A node of a tree, as its parent or the header names it.
struct Node {
  std::uint64_t address = 0;
  std::uint64_t records = 0;
  auto operator<=>(const Node&) const = default;  // NOLINT(modernize-use-nullptr)
};

// A version 2 B-tree.
class NewTree {
 public:
  NewTree(const MetadataBytes& bytes, std::uint64_t address) : bytes_(bytes), address_(address) {}

  std::string damage(const TreeRecords& expected) {
    // Signature, version, kind, bytes of a node and of a record, depth, percentages, root, its records.
    const std::size_t root_at = 16, root_records_at = root_at + bytes_.address_bytes();
    const std::vector<std::byte> head = head_at(bytes_, address_, "BTHD", root_records_at + 2);
    if (head.empty()) return {};
    const std::uint64_t kind = number_in(head, 5, 1), depth = number_in(head, 12, 2);
    node_bytes_ = number_in(head, 6, 4);
    record_bytes_ = number_in(head, 10, 2);
    if (depth > kDeepestTree) return too_deep(depth);
    if (kind != expected.kind || record_bytes_ != expected.record_bytes) {
      return fmt::format(
          "the B-tree at byte {} has records of kind {} with {} bytes, where kind {} with {} belongs",
          address_, kind, record_bytes_, expected.kind, expected.record_bytes);
    }
    if (!measure_levels(depth)) {
      return fmt::format("the B-tree at byte {} claims {} levels of nodes of {} bytes for records of {}",
                         address_, depth + 1, node_bytes_, record_bytes_);
    }
    return descend({bytes_.address_in(head, root_at), number_in(head, root_records_at, 2)}, depth);
  }

 private:
  // How many records fit into the nodes of a level, and in how many bytes its parents store the records below
  // a node of it.
  struct Level {
    std::uint64_t most_records = 0;
    std::uint64_t total_width = 0;
  };
  static constexpr std::uint64_t kPrefixBytes = 10;  // Signature, version, kind, checksum

  std::string too_deep(std::uint64_t depth) const {
    return fmt::format("the B-tree at byte {} claims to be {} levels deep", address_, depth);
  }

  std::uint64_t pointer_bytes(std::size_t level) const {
    return bytes_.address_bytes() + width_for(levels_[0].most_records) + levels_[level - 1].total_width;
  }

  // Returns false if no record fits into a node, or if there would be more records than a number can tell.
  bool measure_levels(std::uint64_t depth) {
    if (node_bytes_ < kPrefixBytes + record_bytes_) return false;
    levels_ = {{(node_bytes_ - kPrefixBytes) / record_bytes_, 0}};
    std::uint64_t total = levels_[0].most_records;
    for (std::size_t level = 1; level <= depth; ++level) {
      const std::uint64_t pointer = pointer_bytes(level);
      if (node_bytes_ < kPrefixBytes + 2 * pointer + record_bytes_) return false;
      const std::uint64_t most = (node_bytes_ - kPrefixBytes - pointer) / (record_bytes_ + pointer);
      if (__builtin_mul_overflow(total, most + 1, &total) || __builtin_add_overflow(total, most, &total))
        return false;
      levels_.push_back({most, width_for(total)});
    }
    return true;
  }

  // Level by level, each node once: in a damaged tree many paths may lead to the same nodes.
  std::string descend(const Node& root, std::uint64_t depth) const {
    if (root.records == 0 && depth == 0) return {};  // An empty tree has no nodes
    std::vector<Node> nodes = {root};
    for (std::size_t level = depth;; --level) {
      for (const Node& node : nodes) {
        if (std::string damage = damage_of(node, level); !damage.empty()) return damage;
      }
      if (level == 0) return {};
      std::vector<Node> children;
      for (const Node& node : nodes) add_children(node, level, children);
      std::ranges::sort(children);
      const auto twice = std::ranges::adjacent_find(children, {}, &Node::address);
      if (twice != children.end())
        return fmt::format("the B-tree at byte {} has the node at byte {} twice", address_, twice->address);
      nodes = std::move(children);
    }
  }

  std::string damage_of(const Node& node, std::size_t level) const {
    // A node at the end of a file whose writer goes on, or was killed, may not be whole.
    if (node.address == undefined_address(bytes_.address_bytes()) || node_bytes_ > bytes_.left(0)) {
      return fmt::format("the B-tree at byte {} has a node of {} bytes at byte {}, which is not in the file",
                         address_, node_bytes_, node.address);
    }
    const std::uint64_t most = levels_[level].most_records;
    if (node.records <= most) return {};
    return fmt::format("the B-tree at byte {} claims {} records in the node at byte {}, into which {} fit",
                       address_, node.records, node.address, most);
  }

  void add_children(const Node& node, std::size_t level, std::vector<Node>& children) const {
    const std::uint64_t pointer = pointer_bytes(level), first = 6 + node.records * record_bytes_;
    const std::vector<std::byte> body =
        head_at(bytes_, node.address, "BTIN", static_cast<std::size_t>(first + (node.records + 1) * pointer));
    if (body.empty()) return;  // libhdf5 says so when it comes there
    for (std::uint64_t i = 0; i <= node.records; ++i) {
      const auto at = static_cast<std::size_t>(first + i * pointer);
      children.push_back({bytes_.address_in(body, at),
                          number_in(body, at + bytes_.address_bytes(), width_for(levels_[0].most_records))});
    }
  }

  const MetadataBytes& bytes_;
  const std::uint64_t address_;
  std::uint64_t node_bytes_ = 0;
  std::uint64_t record_bytes_ = 0;
  std::vector<Level> levels_;  // From the leaves up
};

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
  const std::uint64_t bits = std::bit_width(std::max<std::uint64_t>(chunks.decoded_bytes, 1));
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
  const std::vector<std::byte> head = head_at(bytes, address, "FAHD", kElementsAt + bytes.length_bytes());
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
  const std::vector<std::byte> head = head_at(bytes, address, "EAHD", last_set_at + bytes.length_bytes());
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

}  // namespace

std::string new_tree_damage(const MetadataBytes& bytes, std::uint64_t address, const TreeRecords& records) {
  return NewTree(bytes, address).damage(records);
}

std::string newer_index_damage(const MetadataBytes& bytes, std::span<const std::byte> layout,
                               const ChunkedData& data) {
  // Version, class, flags, extents and bytes of each, extents, kind of index, its parameters, its address.
  // The last extent is the size of an element.
  constexpr std::size_t kExtentsAt = 5;
  const auto extents = static_cast<std::size_t>(number_in(layout, 3, 1));
  const auto width = static_cast<std::size_t>(number_in(layout, 4, 1));
  if (extents == 0 || width == 0 || width > sizeof(std::uint64_t)) return {};  // libhdf5 refuses them
  IndexedChunks chunks{.rank = extents - 1, .filtered = data.filtered};
  if (data.extents.size() == chunks.rank) chunks.count = 1;
  for (std::size_t i = 0; i < extents; ++i) {
    const std::uint64_t extent = number_in(layout, kExtentsAt + i * width, width);
    if (extent == 0) return {};  // libhdf5 refuses it
    chunks.decoded_bytes *= extent;
    if (i == chunks.rank || chunks.count == 0) continue;
    const std::uint64_t along = data.extents[i] / extent + (data.extents[i] % extent != 0 ? 1 : 0);
    if (__builtin_mul_overflow(chunks.count, along, &chunks.count)) chunks.count = ~std::uint64_t{0};
  }
  const std::size_t kind_at = kExtentsAt + extents * width;
  const auto address = [&](std::size_t parameters) {
    return bytes.address_in(layout, kind_at + 1 + parameters);
  };
  constexpr std::uint64_t kFixedArray = 3, kExtensibleArray = 4, kNewTree = 5;
  switch (number_in(layout, kind_at, 1)) {
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
