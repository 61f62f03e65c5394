// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/time_budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "base/clock.hpp"
#include "h5feed/error.hpp"

namespace h5feed::cli {
namespace {

// As --time-budget takes it: "0.3s", "2s".
std::string seconds_option(double seconds) { return fmt::format("{:.6g}s", seconds); }

}  // namespace

TimeBudget::TimeBudget(std::chrono::nanoseconds budget) : start_(Clock::now()), budget_(budget) {}

double TimeBudget::elapsed_s() const noexcept { return seconds_since(start_); }

Clock::time_point TimeBudget::part(double share) const noexcept {
  return start_ + std::chrono::duration_cast<Clock::duration>(slice(share));
}

double TimeBudget::left_s(double share) const noexcept {
  return std::chrono::duration<double>(part(share) - Clock::now()).count();
}

std::chrono::nanoseconds TimeBudget::slice(double share) const noexcept {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(budget_.count()) * share));
}

void TimeBudget::require_left(double done) const {
  // The rest may be slower than what was done, and the result has to be found and printed.
  constexpr double kAmple = 2;
  if (elapsed_s() < total_s()) return;
  refuse(kAmple * elapsed_s() / done);
}

void TimeBudget::refuse(double least_s) const {
  // Slightly smaller, so that rounding errors do not add a second.
  const double least = std::max(least_s, 1.1 * total_s()) * (1 - 1e-12);
  const double rounded = least > 2 ? std::ceil(least) : std::ceil(least * 10) / 10;
  throw OptionError(
      fmt::format("--time-budget {} is too short for this file on this machine; give at least {}",
                  seconds_option(total_s()), seconds_option(rounded)));
}

}  // namespace h5feed::cli
