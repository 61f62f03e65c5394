// SPDX-License-Identifier: Apache-2.0
// From a field as it is stored to its part of a batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "batch/row_kernel.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// What delivers rows of the field as `to`, channels first. Throws OptionError for parameters of `normalize`
/// that do not fit the field.
RowKernelSpec row_kernel_spec(const Field& field, DType to, const std::optional<Normalize>& normalize);

/// What delivers a sample of a named field; of a ragged one, an element. Throws OptionError likewise.
RowKernelSpec row_kernel_spec(const NamedField& field);

/// Labels that wrap around would train a wrong model in silence: throws OptionError where a field that is
/// in memory has a value that `to` cannot hold. `what` is "target" or the field's name, `option` what chooses
/// the type.
void check_range(const Field& field, DType to, const std::string& what, const char* option);

/// Throws the OptionError of `check_range` for `value`, found in a sample of the dataset at `place`.
[[noreturn]] void refuse_value(const std::string& place, const std::string& what, std::uint64_t sample,
                               const std::string& value, DType to, const char* option);

/// The `option` that chooses the type of a named field.
inline constexpr const char* kFieldDType = "dtype of the field";

}  // namespace h5feed
