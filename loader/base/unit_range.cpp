// SPDX-License-Identifier: Apache-2.0
#include "base/unit_range.hpp"

#include <fmt/format.h>

#include "h5feed/error.hpp"

namespace h5feed {

std::optional<double> unit_scale(DType dtype) noexcept {
  if (dtype == DType::u8) return 1.0 / 255;
  if (dtype == DType::u16) return 1.0 / 65535;
  if (!is_integer(dtype)) return 1.0;
  return std::nullopt;
}

double require_unit_scale(std::string_view place, DType dtype) {
  if (const std::optional<double> scale = unit_scale(dtype)) return *scale;
  throw OptionError(
      fmt::format("{}: unit_range scales u8 and u16 to 0 … 1, and takes floats as they are; the data is {}. "
                  "Leave it unset, and set normalize.scale",
                  place, name_of(dtype)));
}

}  // namespace h5feed
