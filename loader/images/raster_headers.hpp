// SPDX-License-Identifier: Apache-2.0
// Headers of the formats that microscopes, satellites and older tools write.
#pragma once

#include <optional>

#include "images/header_bytes.hpp"
#include "images/image_header.hpp"

namespace h5feed {

/// Reads the header of the first image of a TIFF or BigTIFF. Nothing if it is damaged. Thread-safe.
std::optional<ImageHeader> tiff_header(HeaderBytes encoded) noexcept;

/// Reads the header of a JPEG 2000 file or codestream (ITU-T Recommendation T.800, Annexes A and I). Nothing
/// if it is damaged. Thread-safe.
std::optional<ImageHeader> jpeg2000_header(HeaderBytes encoded) noexcept;

/// Reads the header of a PBM, PGM or PPM, plain or raw (Netpbm's pages pbm(5), pgm(5), ppm(5)). Nothing if it
/// is damaged. Thread-safe.
std::optional<ImageHeader> pnm_header(HeaderBytes encoded) noexcept;

}  // namespace h5feed
