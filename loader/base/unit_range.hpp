// The factor that brings stored values to 0 … 1.
#pragma once

#include <optional>
#include <string_view>

#include "h5feed/dtype.hpp"

namespace h5feed {

/// 1/255 for uint8, 1/65535 for uint16, 1 for floats, which are taken to be in range; empty for other
/// integers, whose range no convention gives.
std::optional<double> unit_scale(DType dtype) noexcept;

/// Returns `unit_scale` of data that is to be delivered with `unit_range`. Throws OptionError, naming
/// `place`, where it is empty.
double require_unit_scale(std::string_view place, DType dtype);

}  // namespace h5feed
