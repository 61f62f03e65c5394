// SPDX-License-Identifier: Apache-2.0
#include "store/format/shared_message.hpp"

namespace h5feed {

std::optional<SharedPlace> take_shared_place(MessageContents& message, const NumberWidths& widths) noexcept {
  constexpr unsigned kInTable = 1;
  constexpr std::size_t kHeapId = 8;
  const unsigned version = message.byte();
  const unsigned kind = message.byte();  // nothing in the first version
  if (version < 1 || version > 3) return std::nullopt;
  if (version == 1) message.skip(6 + widths.length_bytes);
  if (version > 1 && kind == kInTable) {
    message.skip(kHeapId);
    return SharedPlace{.in_table = true};
  }
  return SharedPlace{.header = message.number(widths.address_bytes)};
}

// Version, flags, lengths of the name, the type and the dataspace, character set, these parts.
std::optional<AttributeParts> take_attribute_parts(MessageContents& message) noexcept {
  constexpr unsigned kSharedType = 1, kSharedSpace = 2;
  const unsigned version = message.byte();
  const unsigned stored_flags = message.byte();
  if (version < 1 || version > 3) return std::nullopt;
  const unsigned flags = version == 1 ? 0 : stored_flags;
  const auto part_bytes = [&] {
    const auto bytes = static_cast<std::size_t>(message.number(2));
    return version == 1 ? padded(bytes) : bytes;
  };
  const std::size_t name_bytes = part_bytes();
  const std::size_t type_bytes = part_bytes();
  const std::size_t space_bytes = part_bytes();
  if (version == 3) message.skip(1);
  message.skip_name(name_bytes);
  const MessageContents type = message;
  message.skip(type_bytes);
  const MessageContents space = message;
  message.skip(space_bytes);
  return AttributeParts{type, space, (flags & kSharedType) != 0, (flags & kSharedSpace) != 0};
}

}  // namespace h5feed
