// From a field as it is stored to its part of a batch.
#pragma once

#include <optional>

#include "batch/row_kernel.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// What delivers rows of the field as `to`, channels first. Throws OptionError for parameters of `normalize`
/// that do not fit the field.
RowKernelSpec row_kernel_spec(const Field& field, DType to, const std::optional<Normalize>& normalize);

/// Labels that wrap around would train a wrong model in silence: throws OptionError where a target that is
/// in memory has a value that `to` cannot hold.
void check_target_range(const Field& target, DType to);

}  // namespace h5feed
