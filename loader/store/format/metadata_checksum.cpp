// SPDX-License-Identifier: Apache-2.0
#include "store/format/metadata_checksum.hpp"

#include <algorithm>
#include <bit>

#include "store/format/byte_order.hpp"

namespace h5feed {
namespace {

constexpr std::size_t kBlockBytes = 12;

// Takes `from` off `to`, and mixes its bits in.
void mix(std::uint32_t& to, std::uint32_t& from, std::uint32_t& grows, int bits) noexcept {
  to -= from;
  to ^= std::rotl(from, bits);
  from += grows;
}

void mix_last(std::uint32_t& to, std::uint32_t from, int bits) noexcept {
  to ^= from;
  to -= std::rotl(from, bits);
}

}  // namespace

std::uint32_t metadata_checksum(std::span<const std::byte> bytes) noexcept {
  std::uint32_t a = 0xdeadbeefU + static_cast<std::uint32_t>(bytes.size()), b = a, c = a;
  const auto take_block = [&] {
    const auto take_word = [&] {
      const std::size_t count = std::min<std::size_t>(bytes.size(), 4);
      const std::uint64_t word = little_endian(bytes.first(count));
      bytes = bytes.subspan(count);
      return static_cast<std::uint32_t>(word);
    };
    a += take_word();
    b += take_word();
    c += take_word();
  };
  while (bytes.size() > kBlockBytes) {
    take_block();
    mix(a, c, b, 4);
    mix(b, a, c, 6);
    mix(c, b, a, 8);
    mix(a, c, b, 16);
    mix(b, a, c, 19);
    mix(c, b, a, 4);
  }
  if (bytes.empty()) return c;
  take_block();
  mix_last(c, b, 14);
  mix_last(a, c, 11);
  mix_last(b, a, 25);
  mix_last(c, b, 16);
  mix_last(a, c, 4);
  mix_last(b, a, 14);
  mix_last(c, b, 24);
  return c;
}

}  // namespace h5feed
