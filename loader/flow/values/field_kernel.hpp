// SPDX-License-Identifier: Apache-2.0
// Converts fields from their stored form to their part of a batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "batch/row_kernel.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// Returns the kernel that converts a row of `field` to `to`, channels first. Throws OptionError if
/// `normalize` does not fit the field.
RowKernelSpec row_kernel_spec(const Field& field, DType to, const std::optional<Normalize>& normalize);

/// Returns the kernel that converts one sample of a named field; for a ragged field, one element. Throws
/// OptionError if the field's `normalize` does not fit it.
RowKernelSpec row_kernel_spec(const NamedField& field);

/// Throws OptionError if a field in memory has a value that `to` cannot hold: labels that wrap around would
/// silently train a wrong model. Does nothing for fields not in memory. `what` is "target" or the field's
/// name; `option` is the option that chooses the type.
void check_range(const Field& field, DType to, const std::string& what, const char* option);

/// Always throws the OptionError of `check_range` for `value`, found in sample number `sample` of the dataset
/// at `place`.
[[noreturn]] void refuse_value(const std::string& place, const std::string& what, std::uint64_t sample,
                               const std::string& value, DType to, const char* option);

/// Name of the option that chooses the type of a named field, for `check_range`.
inline constexpr const char* kFieldDType = "dtype of the field";

}  // namespace h5feed
