// SPDX-License-Identifier: Apache-2.0
#include "store/checks/global_heap.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "store/format/message_contents.hpp"

namespace h5feed {

std::optional<GlobalHeap::Object> GlobalHeap::find(std::uint64_t collection, std::uint64_t number,
                                                   std::string_view& damage) {
  const auto [place, is_new] = collections_.try_emplace(collection);
  if (is_new) place->second = examine(collection);
  const Collection& found = place->second;
  if (!found.there) return std::nullopt;
  damage = found.damage;
  const auto object = found.objects.find(number);
  if (object != found.objects.end()) return object->second;
  if (damage.empty()) damage = "are not there";
  return std::nullopt;
}

// Of a collection: signature, version, reserved, size. Of an object: number, references, reserved, size.
// libhdf5 visits all objects when it needs one of them.
GlobalHeap::Collection GlobalHeap::examine(std::uint64_t address) const {
  const std::size_t width = bytes_.length_bytes();
  const std::size_t head = padded(8 + width);
  const std::vector<std::byte> start = bytes_.read(address, 8 + width);
  const std::uint64_t size = number_in(start, 8, width);
  if (!begins_with(start, "GCOL") || size > bytes_.left(address) || size < head) return {};
  const std::vector<std::byte> stored = bytes_.read(address, static_cast<std::size_t>(size));
  Collection collection{.there = true, .damage = {}, .objects = {}};
  for (std::size_t at = head; stored.size() - at >= head && collection.damage.empty();) {
    const std::uint64_t number = number_in(stored, at, 2);
    const std::uint64_t length = number_in(stored, at + 8, width);
    const std::size_t left = stored.size() - at;
    if (number == 0) {  // Free space, whose size counts its own head
      if (length == 0) collection.damage = "lie in a heap with free space of no size";
      if (length > left) collection.damage = "lie in a heap whose free space goes beyond its end";
      at += static_cast<std::size_t>(std::min<std::uint64_t>(length, left));
      continue;
    }
    if (length > left - head) {
      collection.damage = "lie in a heap whose objects go beyond its end";
      continue;
    }
    collection.objects[number] = {.address = address + at + head, .bytes = length};
    at += std::min(left, head + padded(static_cast<std::size_t>(length)));
  }
  return collection;
}

}  // namespace h5feed
