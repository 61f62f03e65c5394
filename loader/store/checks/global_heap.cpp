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
  constexpr std::uint64_t kMostRemembered = 1'000'000;
  auto place = collections_.find(collection);
  if (place == collections_.end()) {
    if (objects_ > kMostRemembered) {
      collections_.clear();
      objects_ = 0;
    }
    place = collections_.emplace(collection, examine(collection)).first;
  }
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
GlobalHeap::Collection GlobalHeap::examine(std::uint64_t address) {
  const std::size_t width = bytes_.length_bytes();
  const std::size_t head = padded(8 + width);
  const std::vector<std::byte> start = bytes_.read(address, 8 + width);
  const std::uint64_t size = number_in(start, 8, width);
  if (!begins_with(start, "GCOL") || size > bytes_.left(address) || size < head) return {};
  Collection collection{.there = true, .damage = {}, .objects = {}};
  // Bytes of the collection from `window_at` on: not all of them, as objects may be large.
  constexpr std::uint64_t kWindowBytes = 4096;
  std::vector<std::byte> window;
  std::uint64_t window_at = 0;
  for (std::uint64_t at = head; size - at >= head && collection.damage.empty();) {
    if (at < window_at || at + head > window_at + window.size()) {
      window_at = at;
      window = bytes_.read(address + at, static_cast<std::size_t>(std::min(kWindowBytes, size - at)));
    }
    const auto in_window = static_cast<std::size_t>(at - window_at);
    const std::uint64_t number = number_in(window, in_window, 2);
    const std::uint64_t length = number_in(window, in_window + 8, width);
    const std::uint64_t left = size - at;
    if (number == 0) {  // Free space, whose size counts its own head
      if (length == 0) collection.damage = "lie in a heap with free space of no size";
      if (length > left) collection.damage = "lie in a heap whose free space goes beyond its end";
      at += std::min(length, left);
      continue;
    }
    if (length > left - head) {
      collection.damage = "lie in a heap whose objects go beyond its end";
      continue;
    }
    // Collections that overlap could have any number of objects.
    if (++objects_ > bytes_.left(0) / head) {
      collection.damage = "lie in heaps with more objects than the file has room for";
      continue;
    }
    collection.objects[number] = {.address = address + at + head, .bytes = length};
    at += std::min(left, head + (length + 7) / 8 * 8);
  }
  return collection;
}

}  // namespace h5feed
