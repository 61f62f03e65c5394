#include "store/fletcher32.hpp"

#include <algorithm>

namespace h5feed {
namespace {

std::uint32_t fold(std::uint32_t sum) noexcept { return (sum & 0xffffU) + (sum >> 16); }

std::uint32_t swap_halves(std::uint32_t value) noexcept {
  return ((value & 0x00ff00ffU) << 8) | ((value >> 8) & 0x00ff00ffU);
}

}  // namespace

std::uint32_t fletcher32(std::span<const std::byte> bytes) noexcept {
  // The second sum of 360 words still fits 32 bits.
  constexpr std::size_t kBlockWords = 360;
  std::uint32_t sum1 = 0;
  std::uint32_t sum2 = 0;
  const std::byte* next = bytes.data();
  for (std::size_t words = bytes.size() / 2; words > 0;) {
    const std::size_t block = std::min(words, kBlockWords);
    for (std::size_t i = 0; i < block; ++i, next += 2) {
      sum1 += (std::to_integer<std::uint32_t>(next[0]) << 8) | std::to_integer<std::uint32_t>(next[1]);
      sum2 += sum1;
    }
    sum1 = fold(sum1);
    sum2 = fold(sum2);
    words -= block;
  }
  if (bytes.size() % 2 != 0) {
    sum1 += std::to_integer<std::uint32_t>(*next) << 8;
    sum2 += sum1;
    sum1 = fold(sum1);
    sum2 = fold(sum2);
  }
  return (fold(sum2) << 16) | fold(sum1);
}

bool fletcher32_matches(std::span<const std::byte> bytes, std::uint32_t stored) noexcept {
  const std::uint32_t sum = fletcher32(bytes);
  return stored == sum || stored == swap_halves(sum);
}

}  // namespace h5feed
