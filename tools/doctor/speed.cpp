// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/speed.hpp"

#include <fmt/format.h>

#include <utility>

#include "tools/bench/report.hpp"
#include "tools/bench/rows.hpp"
#include "tools/program/cli.hpp"

namespace h5feed::cli {

std::string Speed::text() const {
  std::string text = rate_text(samples_per_s()) + " samples/s";
  if (!row.at("limit").is_null()) {
    text += fmt::format(", {} of what this machine {} at most", percent_text(row.at("share_of_limit")),
                        row.at("limit") == "decode" ? "decodes" : "copies");
  }
  if (std::string busy = busy_warning(Json::array({row})); !busy.empty()) {
    busy.pop_back();  // the end of the line
    text += "; " + busy;
  }
  return text;
}

std::optional<Speed> measure_speed(BenchSettings settings, std::int64_t num_workers,
                                   std::chrono::nanoseconds duration, Progress& progress) {
  settings.runs = 2;
  settings.warmup = 1;
  settings.time_budget = duration;
  RowOutcome outcome =
      measure_row({.settings = std::move(settings), .num_workers = num_workers, .quiet = true}, progress);
  progress.hide();
  if (outcome.exit_code != kDone) return std::nullopt;
  return Speed{std::move(outcome.answer.at("row"))};
}

}  // namespace h5feed::cli
