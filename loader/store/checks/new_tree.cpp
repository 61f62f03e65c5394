// SPDX-License-Identifier: Apache-2.0
// The layout is that of the HDF5 File Format Specification, section III.A.2.
#include "store/checks/new_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "store/format/metadata_checksum.hpp"
#include "store/format/superblock.hpp"

namespace h5feed {
namespace {

// A tree of that depth has more records than a file can have bytes.
constexpr std::uint64_t kDeepestTree = 64;

// Returns the bytes in which libhdf5 stores numbers up to `most`.
std::uint64_t width_for(std::uint64_t most) {
  return (static_cast<std::uint64_t>(std::bit_width(std::max<std::uint64_t>(most, 1))) - 1) / 8 + 1;
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
  NewTree(const MetadataBytes& bytes, std::uint64_t address, const RecordCheck& check)
      : bytes_(bytes), address_(address), check_(check) {}

  std::string damage(const TreeRecords& expected) {
    // Signature, version, kind, bytes of a node and of a record, depth, percentages, root, its records, all
    // records.
    const std::size_t root_at = 16, root_records_at = root_at + bytes_.address_bytes();
    const std::size_t records_at = root_records_at + 2;
    const std::vector<std::byte> head = bytes_.head(address_, "BTHD", records_at + bytes_.length_bytes());
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
    claimed_ = number_in(head, records_at, bytes_.length_bytes());
    if (claimed_ > bytes_.left(0) / record_bytes_) {
      return fmt::format(
          "the B-tree at byte {} claims {} records of {} bytes, more than the file has room for", address_,
          claimed_, record_bytes_);
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
  static constexpr std::uint64_t kRecordsAt = 6;
  static constexpr std::size_t kChecksumBytes = 4;

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
  std::string descend(const Node& root, std::uint64_t depth) {
    if (root.records == 0 && depth == 0) return {};  // An empty tree has no nodes
    std::vector<Node> nodes = {root};
    for (std::size_t level = depth;; --level) {
      for (const Node& node : nodes) {
        if (std::string damage = damage_of(node, level); !damage.empty()) return damage;
        if (!check_) continue;
        if (std::string damage = damage_of_records(node, level); !damage.empty()) return damage;
      }
      if (level == 0) return {};
      std::vector<Node> children;
      for (const Node& node : nodes) {
        add_children(node, level, children);
        if (children.size() > bytes_.left(0) / node_bytes_ + 1)
          return fmt::format("the B-tree at byte {} has more nodes than the file has room for", address_);
      }
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

  // A node whose checksum is wrong is left to libhdf5, which refuses it.
  std::string damage_of_records(const Node& node, std::size_t level) {
    const std::uint64_t records_end = kRecordsAt + node.records * record_bytes_;
    const auto end =
        static_cast<std::size_t>(records_end + (level == 0 ? 0 : (node.records + 1) * pointer_bytes(level)));
    const std::vector<std::byte> body =
        bytes_.head(node.address, level == 0 ? "BTLF" : "BTIN", end + kChecksumBytes);
    if (body.empty() || metadata_checksum(std::span(body).first(end)) != number_in(body, end, kChecksumBytes))
      return {};
    visited_ += node.records;
    if (visited_ > claimed_) {
      return fmt::format("the B-tree at byte {} has more records than the {} that it claims", address_,
                         claimed_);
    }
    for (std::uint64_t i = 0; i < node.records; ++i) {
      const auto at = static_cast<std::size_t>(kRecordsAt + i * record_bytes_);
      std::string damage = check_(std::span(body).subspan(at, static_cast<std::size_t>(record_bytes_)));
      if (!damage.empty()) return damage;
    }
    return {};
  }

  void add_children(const Node& node, std::size_t level, std::vector<Node>& children) const {
    const std::uint64_t pointer = pointer_bytes(level), first = kRecordsAt + node.records * record_bytes_;
    const std::vector<std::byte> body =
        bytes_.head(node.address, "BTIN", static_cast<std::size_t>(first + (node.records + 1) * pointer));
    if (body.empty()) return;  // libhdf5 says so when it comes there
    for (std::uint64_t i = 0; i <= node.records; ++i) {
      const auto at = static_cast<std::size_t>(first + i * pointer);
      children.push_back({bytes_.address_in(body, at),
                          number_in(body, at + bytes_.address_bytes(), width_for(levels_[0].most_records))});
    }
  }

  const MetadataBytes& bytes_;
  const std::uint64_t address_;
  const RecordCheck& check_;
  std::uint64_t claimed_ = 0;  // Records of the tree
  std::uint64_t visited_ = 0;
  std::uint64_t node_bytes_ = 0;
  std::uint64_t record_bytes_ = 0;
  std::vector<Level> levels_;  // From the leaves up
};

}  // namespace

std::string new_tree_damage(const MetadataBytes& bytes, std::uint64_t address, const TreeRecords& records,
                            const RecordCheck& check) {
  return NewTree(bytes, address, check).damage(records);
}

}  // namespace h5feed
