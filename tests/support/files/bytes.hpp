// SPDX-License-Identifier: Apache-2.0
// Byte strings of tests.
#pragma once

#include <cstddef>
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

}  // namespace h5feed::test
