// SPDX-License-Identifier: Apache-2.0
// Figures of the results of `bench`: charts of its rows, and bars of loaders or sides that were measured in
// turn.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tools/report/charts.hpp"
#include "tools/report/html.hpp"

namespace h5feed::cli {
namespace {

constexpr std::size_t kMostBars = 60;

std::string rate_text_of(double rate, const Json& row) {
  std::string text = shown_number(rate) + " samples/s";
  const auto low = number_in(row, "slowest"), high = number_in(row, "fastest");
  if (low && high) text += fmt::format(" ({} … {})", shown_number(*low), shown_number(*high));
  return text;
}

// Loaders that `bench --peer` measured in turn.
std::vector<Bar> peer_bars(const Json& rows) {
  std::vector<Bar> bars;
  for (const Json& row : rows) {
    if (!row.contains("loader") || bars.size() == kMostBars) continue;
    std::string name = text_in(row, "loader");
    if (const std::string mode = text_in(row, "mode"); !mode.empty()) name += ", " + mode;
    if (const auto workers = number_in(row, "num_workers"))
      name += fmt::format(", {} workers", exact_number(*workers));
    const auto rate = number_in(row, "samples_per_s");
    const std::string error = text_in(row, "error"), order = text_in(row, "order");
    bars.push_back({.name = shortened(name, 100),
                    .value = rate.value_or(0),
                    .text = rate ? rate_text_of(*rate, row) : "not measured",
                    .note = shortened(error.empty() ? order.empty() ? "" : "order: " + order : error, 200)});
  }
  return bars;
}

// The two sides of `bench --alternate`.
std::vector<Bar> side_bars(const Json& sides) {
  std::vector<Bar> bars;
  for (const Json& side : sides) {
    if (bars.size() == 2) break;
    const double rate = number_in(side, "samples_per_s").value_or(0);
    bars.push_back(
        {.name = fmt::format("{}: {}", bars.empty() ? 'A' : 'B', shortened(text_in(side, "text"), 100)),
         .value = rate,
         .text = shown_number(rate) + " samples/s",
         .note = shortened(fmt::format("{} {}", text_in(side, "version"), text_in(side, "commit")), 60)});
  }
  return bars;
}

}  // namespace

std::string bench_figures(const std::vector<Input>& inputs) {
  std::string html;
  for (const Chart& chart : bench_charts(inputs)) {
    if (chart.has_values()) html += chart_html(chart);
  }
  for (const Input& input : inputs) {
    if (input.kind != Input::Kind::bench) continue;
    const auto title = [&](const char* what) {
      return inputs.size() == 1 ? std::string(what) : fmt::format("{}: {}", what, input.label);
    };
    if (const auto rows = input.bench.find("rows"); rows != input.bench.end() && rows->is_array()) {
      const std::vector<Bar> bars = peer_bars(*rows);
      if (!bars.empty())
        html += bars_html(
            title("Loaders in turn"),
            "Samples per second: the median of the repetitions, and the slowest and the fastest of them.",
            bars);
    }
    if (const auto sides = input.bench.find("sides"); sides != input.bench.end() && sides->is_array())
      html += bars_html(title("Two sides in turn"), "Samples per second, median of the repetitions.",
                        side_bars(*sides));
  }
  return html;
}

}  // namespace h5feed::cli
