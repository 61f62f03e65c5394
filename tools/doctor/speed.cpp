// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/speed.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/byte_units.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/rows.hpp"
#include "tools/program/cli.hpp"

namespace h5feed::cli {
namespace {

constexpr double kMostlyCached = 0.9;

}  // namespace

std::uint64_t Speed::samples_done_without() const {
  return row.at("samples_skipped").get<std::uint64_t>() + row.at("samples_replaced").get<std::uint64_t>();
}

std::string Speed::text() const {
  const auto cold = row.at("resident_share");
  return fmt::format("{} samples/s ({}/s of values){}", rate_text(samples_per_s()),
                     format_bytes(static_cast<std::uint64_t>(row.at("bytes_per_s").get<double>())),
                     cold.is_number() && cold.get<double>() < kMostlyCached ? ", partly from storage" : "");
}

std::string Speed::warning() const {
  std::string busy = busy_warning(Json::array({row}));
  if (!busy.empty()) busy.pop_back();  // the end of the line
  return busy;
}

std::optional<Speed> measure_speed(BenchSettings settings, std::int64_t num_workers,
                                   std::chrono::nanoseconds duration, Progress& progress) {
  settings.runs = 2;
  settings.warmup = 1;
  settings.time_budget = duration;
  RowOutcome outcome = measure_row(
      {.settings = std::move(settings), .num_workers = num_workers, .quiet = true, .rate_only = true},
      progress);
  progress.hide();
  if (outcome.exit_code != kDone) return std::nullopt;
  return Speed{std::move(outcome.answer.at("row"))};
}

}  // namespace h5feed::cli
