// SPDX-License-Identifier: Apache-2.0
#include "tools/report/ticks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/report/html.hpp"

namespace h5feed::cli {

std::string Ticks::text(double value) const {
  constexpr double kThousand = 1e3, kMillion = 1e6, kManyDigits = 1e4;
  const auto in_units_of = [&](double unit, const char* suffix) {
    return fmt::format("{}{}", std::round(value / unit * kThousand) / kThousand, suffix);
  };
  if (value == 0) return "0";
  if (top() >= kManyDigits * kMillion) return fmt::format("{:.2g}", value);
  if (top() >= kManyDigits * kThousand) return in_units_of(kMillion, "M");
  if (top() >= kManyDigits) return in_units_of(kThousand, "k");
  if (step >= 1 && value == std::floor(value)) return shown_number(value);
  return fmt::format("{:.{}f}", value, std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9))));
}

Ticks ticks_up_to(double largest, int count) {
  if (!(largest > 0) || !std::isfinite(largest)) return {.step = 1, .values = {0, 1}};
  const double rough = largest / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double round : {1.0, 2.0, 5.0}) {
    if (round * power >= rough * (1 - 1e-9)) {
      step = round * power;
      break;
    }
  }
  const auto last = std::max<long>(1, std::lround(std::ceil(largest / step - 1e-9)));
  Ticks ticks{.step = step, .values = {}};
  for (long i = 0; i <= last; ++i) ticks.values.push_back(static_cast<double>(i) * step);
  return ticks;
}

}  // namespace h5feed::cli
