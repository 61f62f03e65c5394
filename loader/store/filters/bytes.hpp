// SPDX-License-Identifier: Apache-2.0
// Integers and lengths in the framing of filters. Internal to the filters.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "store/filters/filters.hpp"

namespace h5feed {

/// Returns the unsigned big-endian integer in `bytes`, which are at most 8.
inline std::uint64_t read_big_endian(std::span<const std::byte> bytes) noexcept {
  std::uint64_t value = 0;
  for (const std::byte byte : bytes) value = (value << 8) | std::to_integer<std::uint64_t>(byte);
  return value;
}

/// Returns the unsigned little-endian integer in the first four of `bytes`.
inline std::uint32_t read_little_endian32(std::span<const std::byte> bytes) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = (value << 8) | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

/// Appends the low `bytes` bytes of `value` to `out`, most significant byte first. `bytes` is at most 8.
inline void append_big_endian(std::vector<std::byte>& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

/// Removes the next `bytes` bytes from the front of `in` and returns them. Throws FilterError, naming
/// `filter`, if fewer are left.
inline std::span<const std::byte> take(std::span<const std::byte>& in, std::uint64_t bytes,
                                       std::string_view filter) {
  if (bytes > in.size()) {
    throw FilterError(fmt::format("{}: {} bytes are left where {} should follow", filter, in.size(), bytes));
  }
  const std::span<const std::byte> front = in.first(static_cast<std::size_t>(bytes));
  in = in.subspan(front.size());
  return front;
}

/// Throws FilterError, naming `filter`, if a header claims more bytes than `out`, the buffer of the decoded
/// chunk or filter stage, has.
inline void require_fits(std::uint64_t claimed_bytes, std::span<const std::byte> out,
                         std::string_view filter) {
  if (claimed_bytes <= out.size()) return;
  throw FilterError(
      fmt::format("{}: the header claims {} bytes, a chunk has {}", filter, claimed_bytes, out.size()));
}

}  // namespace h5feed
