// SPDX-License-Identifier: Apache-2.0
#include "store/format/byte_order.hpp"

#include <cstdint>
#include <cstring>

namespace h5feed {
namespace {

std::uint16_t reversed(std::uint16_t value) noexcept { return __builtin_bswap16(value); }
std::uint32_t reversed(std::uint32_t value) noexcept { return __builtin_bswap32(value); }
std::uint64_t reversed(std::uint64_t value) noexcept { return __builtin_bswap64(value); }

template <typename Word>
void reverse_each(std::span<std::byte> bytes) noexcept {
  for (std::size_t i = 0; i + sizeof(Word) <= bytes.size(); i += sizeof(Word)) {
    // memcpy: callers may hand over rows that are not aligned to their element.
    Word word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof(Word));
    word = reversed(word);
    std::memcpy(bytes.data() + i, &word, sizeof(Word));
  }
}

}  // namespace

void swap_byte_order(std::span<std::byte> bytes, std::size_t element_bytes) noexcept {
  if (element_bytes == 2) reverse_each<std::uint16_t>(bytes);
  if (element_bytes == 4) reverse_each<std::uint32_t>(bytes);
  if (element_bytes == 8) reverse_each<std::uint64_t>(bytes);
}

std::uint64_t little_endian(std::span<const std::byte> bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = (value << 8) | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

}  // namespace h5feed
