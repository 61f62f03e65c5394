// SPDX-License-Identifier: Apache-2.0
// The factor that scales stored values to 0 … 1.
#pragma once

#include <optional>
#include <string_view>

#include "h5feed/dtype.hpp"

namespace h5feed {

/// Returns the factor that scales values of `dtype` to 0 … 1: 1/255 for u8, 1/65535 for u16, 1 for floats,
/// which are assumed to be in range. Returns nullopt for other integer types, which have no conventional
/// range.
std::optional<double> unit_scale(DType dtype) noexcept;

/// Returns `unit_scale(dtype)` for data that the user wants with `unit_range`. Throws OptionError, naming
/// `place`, if the type has no such factor.
double require_unit_scale(std::string_view place, DType dtype);

}  // namespace h5feed
