// SPDX-License-Identifier: Apache-2.0
// Stored values to the host's.
#pragma once

#include <cstddef>
#include <span>

#include "store/format/dataset_info.hpp"

namespace h5feed {

/// Converts values of the dataset in place, from as they are stored to the host's: reverses their bytes if
/// the file has the other order, and takes the bits of integers that do not fill their bytes, with the sign.
/// Thread-safe on distinct spans.
void to_host_values(const DatasetInfo& info, std::span<std::byte> values) noexcept;

/// Takes the bits of integers that do not fill their bytes, with the sign, of values in the host's byte
/// order, in place. Thread-safe on distinct spans.
void take_value_bits(const DatasetInfo& info, std::span<std::byte> values) noexcept;

}  // namespace h5feed
