// SPDX-License-Identifier: Apache-2.0
#include "store/checks/old_group.hpp"

#include <fmt/format.h>

#include "store/checks/local_heap.hpp"
#include "store/checks/old_tree.hpp"
#include "store/format/message_contents.hpp"

namespace h5feed {
namespace {

using Bytes = std::span<const std::byte>;

// The message has the addresses of the tree and of the heap.
std::uint64_t tree_of(const MetadataBytes& bytes, Bytes message) { return bytes.address_in(message, 0); }
std::uint64_t heap_of(const MetadataBytes& bytes, Bytes message) {
  return bytes.address_in(message, bytes.address_bytes());
}

OldTree tree_of_groups(const MetadataBytes& bytes) { return {OldTree::group, bytes.length_bytes()}; }

// The entries of a symbol table, whose bytes are: place of the name, address of the object header, what is
// cached, four reserved, 16 of what is cached.
class SymbolTable {
 public:
  SymbolTable(const MetadataBytes& bytes, std::uint64_t address)
      : bytes_(bytes),
        entry_bytes_(bytes.length_bytes() + bytes.address_bytes() + 24),
        entries_(bytes.head(address, "SNOD", kHeadBytes)) {
    constexpr std::size_t kEntriesAt = 6, kUsualEntries = 8;
    if (entries_.empty()) return;  // libhdf5 says so when it comes there
    entries_ = bytes.read(address, kHeadBytes + kUsualEntries * entry_bytes_);
    const std::size_t all =
        kHeadBytes + static_cast<std::size_t>(number_in(entries_, kEntriesAt, 2)) * entry_bytes_;
    if (all > entries_.size()) entries_ = bytes.read(address, all);
    entries_.resize(std::min(all, entries_.size()));
    entries_.erase(entries_.begin(), entries_.begin() + kHeadBytes);
  }

  std::size_t size() const noexcept { return entries_.size() / entry_bytes_; }
  std::uint64_t name(std::size_t i) const noexcept {
    return number_in(entries_, i * entry_bytes_, bytes_.length_bytes());
  }
  std::uint64_t header(std::size_t i) const noexcept {
    return bytes_.address_in(entries_, i * entry_bytes_ + bytes_.length_bytes());
  }
  bool is_soft_link(std::size_t i) const noexcept {
    constexpr std::uint64_t kSoftLink = 2;
    return number_in(entries_, cache_at(i), 4) == kSoftLink;
  }
  // Place of the target of a soft link.
  std::uint64_t target(std::size_t i) const noexcept { return number_in(entries_, cache_at(i) + 8, 4); }

 private:
  static constexpr std::size_t kHeadBytes = 8;

  std::size_t cache_at(std::size_t i) const noexcept {
    return i * entry_bytes_ + bytes_.length_bytes() + bytes_.address_bytes();
  }

  const MetadataBytes& bytes_;
  const std::size_t entry_bytes_;
  std::vector<std::byte> entries_;
};

std::string not_in_heap(std::uint64_t heap, std::string_view what, std::uint64_t offset) {
  return fmt::format("{} at byte {} of the local heap at byte {}, which does not hold it", what, offset,
                     heap);
}

}  // namespace

std::string old_group_members(const MetadataBytes& bytes, Bytes message, std::size_t most,
                              std::vector<std::uint64_t>& members) {
  std::vector<std::uint64_t> tables;
  std::string damage =
      old_tree_damage(bytes, tree_of_groups(bytes), tree_of(bytes, message), {.leaf_children = &tables});
  for (std::size_t i = 0; i < tables.size() && damage.empty() && members.size() < most; ++i) {
    const SymbolTable table(bytes, tables[i]);
    for (std::size_t entry = 0; entry < table.size(); ++entry) members.push_back(table.header(entry));
  }
  return damage;
}

std::string old_group_damage(const MetadataBytes& bytes, Bytes message) {
  const std::uint64_t address = heap_of(bytes, message);
  const LocalHeap heap(bytes, address);
  if (!heap.damage().empty()) return heap.damage();
  // Keys may stay behind names that were removed, for which libhdf5 has an error if they are looked up.
  const auto check_key = [&](Bytes key) {
    const std::uint64_t offset = number_in(key, 0, key.size());
    return heap.overruns(offset) ? not_in_heap(address, "a group has a key", offset) : std::string();
  };
  std::vector<std::uint64_t> tables;
  std::string damage = old_tree_damage(bytes, tree_of_groups(bytes), tree_of(bytes, message),
                                       {.leaf_children = &tables, .check_key = check_key});
  if (!damage.empty()) return damage;
  for (const std::uint64_t place : tables) {
    const SymbolTable table(bytes, place);
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (!heap.holds_text(table.name(i))) return not_in_heap(address, "a group has a name", table.name(i));
      if (table.is_soft_link(i) && !heap.holds_text(table.target(i)))
        return not_in_heap(address, "a group has a soft link whose target is", table.target(i));
    }
  }
  return {};
}

// Version, reserved, places, files, address of the heap; of each file the place of its name, offset and size.
std::string external_names_damage(const MetadataBytes& bytes, Bytes message) {
  MessageContents contents(message);
  contents.skip(6);
  const std::uint64_t files = contents.number(2);
  const std::uint64_t address = contents.number(bytes.address_bytes());
  if (!contents.whole()) return {};
  const LocalHeap heap(bytes, address);
  if (!heap.damage().empty()) return heap.damage();
  for (std::uint64_t i = 0; i < files; ++i) {
    const std::uint64_t name = contents.number(bytes.length_bytes());
    contents.skip_numbers(2, bytes.length_bytes());
    if (!contents.whole()) return {};
    if (!heap.holds_text(name)) return not_in_heap(address, "the name of an external file is", name);
    // libhdf5 refuses it, but keeps objects open of the file that it then frees.
    if (heap.is_empty(name)) return "the name of an external file is empty";
  }
  return {};
}

}  // namespace h5feed
