// SPDX-License-Identifier: Apache-2.0
// A seeded permutation of 0 … n−1 in O(1) memory.
#pragma once

#include <array>
#include <cstdint>

namespace h5feed {

/// Returns 64 well-mixed bits of (seed, stream, index), the source of every key in a plan. Uses the finalizer
/// of SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
std::uint64_t mix_key(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) noexcept;

/// Returns a number below `count`, uniform up to an error of 2^-64 · count, from random `bits`.
inline std::uint64_t draw_below(std::uint64_t bits, std::uint64_t count) noexcept {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{bits} * count >> 64);
}

/// A permutation of 0 … n−1: a Feistel network over the smallest power of two ≥ n that repeats until the
/// value is below n ("cycle walking"; Black, Rogaway: "Ciphers with Arbitrary Finite Domains", CT-RSA 2002),
/// fewer than two evaluations on average. Immutable and thread-safe. The sequence is part of the public
/// contract: golden vectors in the tests pin it.
class Permutation {
 public:
  /// Requires `n` ≥ 1.
  Permutation(std::uint64_t n, std::uint64_t key) noexcept;

  /// Returns the value at `position` < n.
  std::uint64_t at(std::uint64_t position) const noexcept;

  /// Returns the position of `value` < n: `at(position_of(v)) == v`.
  std::uint64_t position_of(std::uint64_t value) const noexcept;

 private:
  static constexpr int kRounds = 8;

  std::uint64_t round(std::uint64_t half, int number) const noexcept;
  std::uint64_t encrypt(std::uint64_t value) const noexcept;
  std::uint64_t decrypt(std::uint64_t value) const noexcept;

  std::uint64_t n_;
  int low_bits_;
  int high_bits_;
  std::array<std::uint64_t, kRounds> keys_;
};

}  // namespace h5feed
