// SPDX-License-Identifier: Apache-2.0
// The messages are those of the HDF5 File Format Specification, sections IV.A.2.c and IV.A.2.v, the records
// those of section III.A.2.
#include "store/checks/dense_storage.hpp"

#include <vector>

#include "store/checks/fractal_heap.hpp"
#include "store/checks/link_message.hpp"
#include "store/checks/new_tree.hpp"
#include "store/format/superblock.hpp"

namespace h5feed {
namespace {

// Where the heap is, and the tree that lists names.
struct Storage {
  std::uint64_t heap = 0;
  std::uint64_t names = 0;
};

// Version, flags, if these say so the largest order of creation in `order_bytes`, addresses.
Storage storage_of(const MetadataBytes& bytes, std::span<const std::byte> info, std::size_t order_bytes) {
  const bool ordered = (number_in(info, 1, 1) & 1U) != 0;
  const std::size_t heap_at = 2 + (ordered ? order_bytes : 0);
  return {bytes.address_in(info, heap_at), bytes.address_in(info, heap_at + bytes.address_bytes())};
}

// libhdf5 takes the heap for the sign that there is a tree, or the other way round.
std::string damage_of_storage(const MetadataBytes& bytes, const Storage& storage) {
  const std::uint64_t none = undefined_address(bytes.address_bytes());
  if ((storage.heap == none) == (storage.names == none)) return {};
  return "an object header names a heap of links or attributes without a tree of their names, or a tree "
         "alone";
}

}  // namespace

std::string link_storage_damage(const MetadataBytes& bytes, std::span<const std::byte> info) {
  // Records: hash of the name, id.
  constexpr TreeRecords kNames{.kind = 5, .record_bytes = 11};
  constexpr std::size_t kIdAt = 4, kIdBytes = 7;
  const Storage storage = storage_of(bytes, info, 8);
  if (std::string damage = damage_of_storage(bytes, storage); !damage.empty()) return damage;
  FractalHeap heap(bytes, storage.heap, kIdBytes);
  if (std::string damage = heap.damage(); !damage.empty()) return damage;
  return new_tree_damage(bytes, storage.names, kNames, [&](std::span<const std::byte> record) {
    const std::span<const std::byte> id = record.subspan(kIdAt, kIdBytes);
    if (std::string damage = heap.damage_of(id); !damage.empty()) return damage;
    const std::vector<std::byte> link = heap.object(id);
    const NumberWidths widths{bytes.address_bytes(), bytes.length_bytes()};
    return std::string(link.empty() || read_link_message(link, widths) ? "" : kBadLink);
  });
}

std::string attribute_storage_damage(const MetadataBytes& bytes, std::span<const std::byte> info,
                                     const AttributeChecks& checks) {
  // Records: id, flags of the message, order of creation, hash of the name.
  constexpr TreeRecords kNames{.kind = 8, .record_bytes = 17};
  constexpr std::size_t kIdBytes = 8, kFlagsAt = kIdBytes;
  constexpr std::uint64_t kShared = 2;  // The id is then one of the file's heap of shared messages
  const Storage storage = storage_of(bytes, info, 2);
  if (std::string damage = damage_of_storage(bytes, storage); !damage.empty()) return damage;
  FractalHeap heap(bytes, storage.heap, kIdBytes);
  if (std::string damage = heap.damage(); !damage.empty()) return damage;
  return new_tree_damage(bytes, storage.names, kNames, [&](std::span<const std::byte> record) {
    if ((number_in(record, kFlagsAt, 1) & kShared) != 0) {
      return std::string(checks.may_be_shared ? ""
                                              : "an attribute is said to be in a table of shared messages, "
                                                "which the file does not have");
    }
    const std::span<const std::byte> id = record.subspan(0, kIdBytes);
    if (std::string damage = heap.damage_of(id); !damage.empty()) return damage;
    const std::vector<std::byte> attribute = heap.object(id);
    return attribute.empty() ? std::string() : checks.contents(attribute);
  });
}

}  // namespace h5feed
