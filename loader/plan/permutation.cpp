// SPDX-License-Identifier: Apache-2.0
#include "plan/permutation.hpp"

#include <bit>
#include <utility>

namespace h5feed {
namespace {

std::uint64_t finalize(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ull;

constexpr std::uint64_t mask(int bits) noexcept { return (std::uint64_t{1} << bits) - 1; }

}  // namespace

std::uint64_t mix_key(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) noexcept {
  return finalize(finalize(finalize(seed + kGolden) ^ (stream + kGolden)) ^ (index + kGolden));
}

Permutation::Permutation(std::uint64_t n, std::uint64_t key) noexcept : n_(n) {
  const int bits = n > 1 ? static_cast<int>(std::bit_width(n - 1)) : 1;
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  for (int i = 0; i < kRounds; ++i) {
    keys_[static_cast<std::size_t>(i)] = finalize(key + kGolden * static_cast<std::uint64_t>(i + 1));
  }
}

std::uint64_t Permutation::round(std::uint64_t half, int number) const noexcept {
  return finalize(half ^ keys_[static_cast<std::size_t>(number)]);
}

// Even rounds change the low half by the high half, odd rounds the high half by the low half. The halves keep
// their widths, so the network also works for an odd number of bits.
std::uint64_t Permutation::encrypt(std::uint64_t value) const noexcept {
  std::uint64_t low = value & mask(low_bits_);
  std::uint64_t high = value >> low_bits_;
  for (int i = 0; i < kRounds; i += 2) {
    low ^= round(high, i) & mask(low_bits_);
    high ^= round(low, i + 1) & mask(high_bits_);
  }
  return high << low_bits_ | low;
}

std::uint64_t Permutation::decrypt(std::uint64_t value) const noexcept {
  std::uint64_t low = value & mask(low_bits_);
  std::uint64_t high = value >> low_bits_;
  for (int i = kRounds - 2; i >= 0; i -= 2) {
    high ^= round(low, i + 1) & mask(high_bits_);
    low ^= round(high, i) & mask(low_bits_);
  }
  return high << low_bits_ | low;
}

std::uint64_t Permutation::at(std::uint64_t position) const noexcept {
  std::uint64_t value = encrypt(position);
  while (value >= n_) value = encrypt(value);
  return value;
}

std::uint64_t Permutation::position_of(std::uint64_t value) const noexcept {
  std::uint64_t position = decrypt(value);
  while (position >= n_) position = decrypt(position);
  return position;
}

}  // namespace h5feed
