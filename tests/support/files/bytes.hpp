// SPDX-License-Identifier: Apache-2.0
// Byte strings of tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace h5feed::test {

using Bytes = std::vector<std::byte>;

/// Converts pairs of hexadecimal digits, with lower-case letters, to bytes.
inline Bytes from_hex(std::string_view text) {
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(digit(text[i]) * 16 + digit(text[i + 1])));
  return bytes;
}

/// Appends numbers of one byte to `to` as a loader delivers labels: as int64 of the machine's byte order.
inline void append_as_labels(Bytes& to, std::span<const std::byte> numbers) {
  for (const std::byte number : numbers) {
    const auto wide = std::to_integer<std::int64_t>(number);
    const auto* const bytes = reinterpret_cast<const std::byte*>(&wide);
    to.insert(to.end(), bytes, bytes + sizeof wide);
  }
}

}  // namespace h5feed::test
