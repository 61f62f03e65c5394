// SPDX-License-Identifier: Apache-2.0
// Builds chunks of HDF5 filter 32013 (zfp), for which h5feed has no encoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace h5feed::test {

/// A type of values that zfp compresses.
enum class ZfpValues : std::uint8_t { i32 = 1, i64, f32, f64 };

/// Limits that Mode::expert sets for each block of values: its bits, the bit planes of a value, and the
/// exponent of the least plane. A least exponent below -1074 makes the compression lossless.
struct ZfpLimits {
  unsigned least_bits = 20;
  unsigned most_bits = 1000;
  unsigned precision = 25;
  int least_exponent = -20;
};

/// How the values are compressed.
struct ZfpSetUp {
  enum class Mode : std::uint8_t { reversible, rate, precision, accuracy, expert };

  std::vector<std::size_t> shape;  ///< one to four extents, slowest first
  ZfpValues type = ZfpValues::f32;
  Mode mode = Mode::reversible;
  double value = 0;  ///< bits of a value, bits of precision, or tolerance
  ZfpLimits limits = {};
};

/// A chunk, what libzfp decodes it to, and the parameters of the filter.
struct ZfpChunk {
  std::vector<unsigned> params;
  std::vector<std::byte> stored;
  std::vector<std::byte> decoded;
};

/// Returns the parameters of the filter: its versions and a header. Throws std::runtime_error if libzfp
/// refuses.
std::vector<unsigned> zfp_params(const ZfpSetUp& set_up);

/// Returns a chunk of smooth values. Throws std::runtime_error if libzfp refuses.
ZfpChunk zfp_chunk(const ZfpSetUp& set_up);

}  // namespace h5feed::test
