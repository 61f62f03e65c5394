// SPDX-License-Identifier: Apache-2.0
// Content of generated samples: a pure function of seed and sample number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "h5feed/dtype.hpp"

namespace h5feed::cli {

/// Returns the label of a sample: uniform over 0 … classes − 1.
std::uint64_t synthetic_label(std::uint64_t seed, std::uint64_t sample, std::uint64_t classes) noexcept;

/// Images that compress under gzip like photographs: a mix of smooth and noisy tiles in the proportion that
/// gives about the wanted ratio. The brightness of the tiles depends on the sample's class, so that a network
/// can learn it. Immutable and thread-safe.
class SyntheticImages {
 public:
  /// Returns the element types that `fill` supports.
  static const std::vector<DType>& dtypes();

  /// `shape` is the shape of one sample. `ratio` is decoded / stored bytes under gzip:4, from 1 to 4, reached
  /// within 10 %; at least the ratio of pure noise (u8 1.06, u16 1.01, f32 1.14).
  SyntheticImages(std::uint64_t seed, std::vector<std::uint64_t> shape, DType dtype, std::uint64_t classes,
                  double ratio);

  /// Writes sample `sample` to `out`, which must have the size of one sample.
  void fill(std::uint64_t sample, std::span<std::byte> out) const;

 private:
  template <typename T>
  void fill_as(std::uint64_t sample, std::span<T> out) const;

  std::uint64_t seed_;
  DType dtype_;
  std::uint64_t classes_;
  std::size_t line_elements_ = 1;  // elements of one image line
  double grain_share_ = 1;
};

/// Token sequences, uniform over [low, high). Immutable and thread-safe.
class SyntheticTokens {
 public:
  /// Returns the element types that `fill` supports.
  static const std::vector<DType>& dtypes();

  /// Throws OptionError unless `high - low` is in 1 … 2^32 and the values fit `dtype`.
  SyntheticTokens(std::uint64_t seed, DType dtype, std::int64_t low, std::int64_t high);

  /// Writes sample `sample` to `out`, which must have the size of one sample.
  void fill(std::uint64_t sample, std::span<std::byte> out) const;

 private:
  template <typename T>
  void fill_as(std::uint64_t sample, std::span<T> out) const;

  std::uint64_t seed_;
  DType dtype_;
  std::int64_t low_;
  std::uint64_t range_;
};

}  // namespace h5feed::cli
