// SPDX-License-Identifier: Apache-2.0
// Checksum of the metadata of newer files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace h5feed {

/// Returns the checksum that follows `bytes` in a file: Jenkins' lookup3 with a start of 0 (HDF5 File Format
/// Specification, section I.D; burtleburtle.net/bob/c/lookup3.c).
std::uint32_t metadata_checksum(std::span<const std::byte> bytes) noexcept;

}  // namespace h5feed
