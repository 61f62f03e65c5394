// SPDX-License-Identifier: Apache-2.0
// Sums of integers and of their squares without rounding, from which the mean and the standard deviation
// follow.
#pragma once

#include <cstdint>

namespace h5feed::cli {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;

/// Sums over integers of up to 64 bits, signed or not: exact for fewer than 2^62 of them. Sums of parts add
/// up to those of the whole in any order.
struct ExactSums {
  Int128 sum = 0;
  UInt128 squares = 0;                ///< sum of the squares, modulo 2^128
  std::uint64_t squares_carried = 0;  ///< how often `squares` overflowed

  void add_squares(UInt128 more) noexcept {
    squares += more;
    squares_carried += squares < more ? 1 : 0;
  }
  void add(const ExactSums& other) noexcept {
    sum += other.sum;
    add_squares(other.squares);
    squares_carried += other.squares_carried;
  }
};

/// Mean and population standard deviation, each off by a rounding of the result only.
struct ExactFigures {
  double mean = 0;
  double std = 0;  ///< 0 only if all values are equal
};

/// Returns the figures of the `count` summed integers; `count` is 1 or more.
ExactFigures figures_of(const ExactSums& sums, std::uint64_t count);

}  // namespace h5feed::cli
