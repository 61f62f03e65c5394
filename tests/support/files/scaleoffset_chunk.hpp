// SPDX-License-Identifier: Apache-2.0
// Builds chunks of HDF5 filter 6 (scale-offset), for which h5feed has no encoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace h5feed::test {

/// Properties from which libhdf5 derives the filter's client data.
struct ScaleOffsetSetUp {
  bool floating = false;
  int factor = 0;  ///< bits of an integer, 0 for as many as needed; decimal digits of a float
  std::size_t elements = 0;
  std::size_t element_bytes = 1;
  bool is_signed = false;
  bool big_endian = false;
  std::optional<std::uint64_t> fill_value = {};
};

/// Returns the client data as libhdf5 stores it.
inline std::vector<unsigned> scaleoffset_params(const ScaleOffsetSetUp& set_up) {
  std::vector<unsigned> params(20);
  params[0] = set_up.floating ? 0 : 2;
  params[1] = static_cast<unsigned>(set_up.factor);
  params[2] = static_cast<unsigned>(set_up.elements);
  params[3] = set_up.floating ? 1 : 0;
  params[4] = static_cast<unsigned>(set_up.element_bytes);
  params[5] = set_up.is_signed ? 1 : 0;
  params[6] = set_up.big_endian ? 1 : 0;
  params[7] = set_up.fill_value ? 1 : 0;
  params[8] = static_cast<unsigned>(set_up.fill_value.value_or(0));
  params[9] = static_cast<unsigned>(set_up.fill_value.value_or(0) >> 32);
  return params;
}

/// Returns a stored chunk: the header, then the low `bits` bits of each value, most significant bit first.
inline std::vector<std::byte> scaleoffset_chunk(unsigned bits, std::uint64_t minimum,
                                                std::span<const std::uint64_t> values) {
  std::vector<std::byte> bytes(21);
  for (unsigned i = 0; i < 4; ++i) bytes[i] = static_cast<std::byte>(bits >> (8 * i));
  bytes[4] = std::byte{8};
  for (unsigned i = 0; i < 8; ++i) bytes[5 + i] = static_cast<std::byte>(minimum >> (8 * i));
  std::size_t bit = 8 * bytes.size();
  bytes.resize(bytes.size() + (values.size() * bits + 7) / 8);
  for (const std::uint64_t value : values) {
    for (unsigned i = bits; i-- > 0; ++bit) {
      bytes[bit / 8] |= static_cast<std::byte>((value >> i & 1U) << (7 - bit % 8));
    }
  }
  return bytes;
}

}  // namespace h5feed::test
