// SPDX-License-Identifier: Apache-2.0
// Numbers and marks in the headers of encoded images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace h5feed {

using HeaderBytes = std::span<const std::byte>;

/// Returns whether `text` stands at offset `at`. False beyond the end.
inline bool has_text(HeaderBytes bytes, std::size_t at, std::string_view text) noexcept {
  return bytes.size() >= text.size() && at <= bytes.size() - text.size() &&
         std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

/// Returns the number of `count` bytes at offset `at`, the most significant byte first. All of them must
/// exist; `count` is at most 8.
inline std::uint64_t big_endian(HeaderBytes bytes, std::size_t at, std::size_t count) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
  return value;
}

/// Returns the number of `count` bytes at offset `at`, the least significant byte first. All of them must
/// exist; `count` is at most 8.
inline std::uint64_t little_endian(HeaderBytes bytes, std::size_t at, std::size_t count) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = count; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
  return value;
}

}  // namespace h5feed
