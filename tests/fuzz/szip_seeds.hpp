// SPDX-License-Identifier: Apache-2.0
// The project has no szip encoder: its seeds come from libaec.
#pragma once

#include "fuzz/fuzz_target.hpp"

namespace h5feed::test::fuzz {

/// What filter 4 stores for `chunk`, of pixels with 8 or 16 bits and scanlines of whole blocks.
Bytes encode_szip(std::span<const std::byte> chunk, unsigned block_pixels, unsigned pixel_bits,
                  unsigned scanline_pixels);

}  // namespace h5feed::test::fuzz
