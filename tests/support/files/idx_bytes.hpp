// SPDX-License-Identifier: Apache-2.0
// Builds IDX files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace h5feed::test {

/// Returns an IDX file: the header (type code, big-endian extents) followed by `data`.
std::vector<std::byte> idx_bytes(std::uint8_t type, const std::vector<std::uint32_t>& shape,
                                 std::span<const std::byte> data);

/// Returns `bytes` compressed as one gzip member.
std::vector<std::byte> gzip(std::span<const std::byte> bytes);

}  // namespace h5feed::test
