// SPDX-License-Identifier: Apache-2.0
#include "store/checks/link_message.hpp"

namespace h5feed {
namespace {

// A byte of version and flags, the name of the file, that of the object. libhdf5 1.10 looks for the names
// without asking where the value ends.
bool is_external_target(std::span<const std::byte> value) {
  MessageContents contents(value);
  contents.skip(1);
  contents.skip_text(false);
  contents.skip_text(false);
  return contents.whole();
}

}  // namespace

// Version, flags, optional type, order of creation and character set, length of the name, name, target.
std::optional<LinkMessage> read_link_message(std::span<const std::byte> body, const NumberWidths& widths) {
  constexpr unsigned kWidthOfName = 0x03, kHasOrder = 0x04, kHasType = 0x08, kHasCharacterSet = 0x10;
  constexpr unsigned kHard = 0, kSoft = 1, kFirstOfUsers = 64, kExternal = 64;
  MessageContents contents(body);
  if (contents.byte() != 1) return std::nullopt;
  const unsigned flags = contents.byte();
  constexpr unsigned kKnown = kWidthOfName | kHasOrder | kHasType | kHasCharacterSet;
  if ((flags & ~kKnown) != 0) return std::nullopt;
  const unsigned type = (flags & kHasType) != 0 ? contents.byte() : kHard;
  if ((flags & kHasOrder) != 0) contents.skip(8);
  constexpr unsigned kUtf8 = 1;
  if ((flags & kHasCharacterSet) != 0 && contents.byte() > kUtf8) return std::nullopt;
  const std::uint64_t name_bytes = contents.number(std::size_t{1} << (flags & kWidthOfName));
  if (name_bytes == 0) return std::nullopt;
  contents.skip(name_bytes);
  LinkMessage link;
  if (type == kHard) {
    link.target = contents.number(widths.address_bytes);
  } else if (type == kSoft || type >= kFirstOfUsers) {
    const std::uint64_t value_bytes = contents.number(2);
    if (type == kSoft && value_bytes == 0) return std::nullopt;
    const std::span<const std::byte> value = contents.skip(value_bytes);
    if (type == kExternal && !is_external_target(value)) return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (!contents.whole()) return std::nullopt;
  return link;
}

}  // namespace h5feed
