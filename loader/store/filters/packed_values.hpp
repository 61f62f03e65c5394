// SPDX-License-Identifier: Apache-2.0
// Unpacks integers of any number of bits. Internal to the filters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "store/format/byte_order.hpp"

namespace h5feed {

/// Returns the value with its bytes in reverse order.
template <typename T>
T swapped(T value) noexcept {
  if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(value));
  if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(value));
  if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(value));
  return value;
}

/// Unsigned integers of 1 to 63 bits without gaps, most significant bit first. Borrows the bytes.
class PackedValues {
 public:
  PackedValues(std::span<const std::byte> bytes, unsigned bits) noexcept : bytes_(bytes), bits_(bits) {}

  /// Calls visit(index, value) for the first `count` integers, all of whose bits are in the bytes.
  template <typename Visit>
  void for_each(std::size_t count, const Visit& visit) const noexcept {
    // A word and the next byte hold any value, regardless of the bit at which it begins.
    constexpr std::size_t kWindow = 9;
    const std::size_t whole =
        bytes_.size() < kWindow ? 0 : std::min(count, ((bytes_.size() - kWindow) * 8 + 7) / bits_ + 1);
    std::size_t i = 0;
    if (bits_ <= 57) {
      for (; i < whole; ++i) visit(i, narrow_value(bytes_.data(), i * bits_));
    } else {
      for (; i < whole; ++i) visit(i, wide_value(bytes_.data(), i * bits_));
    }
    for (; i < count; ++i) {
      std::byte window[kWindow] = {};
      const std::size_t first = i * bits_ / 8;
      std::memcpy(window, bytes_.data() + first, std::min(kWindow, bytes_.size() - first));
      visit(i, wide_value(window, i * bits_ % 8));
    }
  }

 private:
  static std::uint64_t word_at(const std::byte* bytes) noexcept {
    std::uint64_t word;
    std::memcpy(&word, bytes, sizeof(word));
    return kHostIsBigEndian ? word : swapped(word);
  }

  std::uint64_t narrow_value(const std::byte* bytes, std::size_t bit) const noexcept {
    return word_at(bytes + bit / 8) << bit % 8 >> (64 - bits_);
  }

  std::uint64_t wide_value(const std::byte* bytes, std::size_t bit) const noexcept {
    const auto behind = std::to_integer<std::uint64_t>(bytes[bit / 8 + 8]);
    return (word_at(bytes + bit / 8) << bit % 8 | behind >> (8 - bit % 8)) >> (64 - bits_);
  }

  std::span<const std::byte> bytes_;
  unsigned bits_;
};

}  // namespace h5feed
