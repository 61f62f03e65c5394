// SPDX-License-Identifier: Apache-2.0
#include "store/checks/attribute_values.hpp"

#include <fmt/format.h>

#include <optional>
#include <string_view>

namespace h5feed {

std::string attribute_values_damage(const MetadataBytes& bytes, GlobalHeap& heap,
                                    std::span<const std::byte> type, MessageContents values,
                                    std::uint64_t count) {
  constexpr unsigned kVariableLength = 9;
  // Class, version, flags; bytes of a place; the same of the elements.
  constexpr std::size_t kElementBytesAt = 12;
  if ((number_in(type, 0, 1) & 0xfU) != kVariableLength) return {};
  const std::uint64_t element_bytes = number_in(type, kElementBytesAt, 4);
  for (; count > 0; --count) {
    const std::uint64_t claimed = values.number(4) * element_bytes;
    const std::uint64_t collection = values.number(bytes.address_bytes());
    const std::uint64_t number = values.number(4);
    if (!values.whole()) return {};
    if (claimed > bytes.left(0))
      return fmt::format("an attribute claims a value of {} bytes, more than the file has", claimed);
    if (collection == 0) continue;  // No elements
    std::string_view damage;
    const std::optional<GlobalHeap::Object> object = heap.find(collection, number, damage);
    if (damage.empty() && object && object->bytes > claimed) damage = "are longer than it claims";
    if (!damage.empty())
      return fmt::format("an attribute has values that, in the heap at byte {}, {}", collection, damage);
  }
  return {};
}

}  // namespace h5feed
