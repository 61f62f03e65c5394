// SPDX-License-Identifier: Apache-2.0
// Charts of the rows of `bench`, by the number of workers or by what was swept.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "tools/bench/report.hpp"
#include "tools/report/charts.hpp"
#include "tools/report/html.hpp"

namespace h5feed::cli {
namespace {

// Rows that a chart shows; further ones are left out.
constexpr std::size_t kMostRows = 400;

// One row, where it lies in the charts.
struct PlacedRow {
  const Json* row;
  std::string position;  // label on the axis
  std::string line;      // name of its line
};

// All rows, and the order of positions and lines.
struct PlacedRows {
  std::string x_name = "workers";
  std::vector<PlacedRow> rows = {};
  std::vector<std::string> positions = {}, lines = {};

  void add(PlacedRow row) {
    for (const auto& [name, names] : {std::pair(&row.position, &positions), {&row.line, &lines}}) {
      if (std::ranges::find(*names, *name) == names->end()) names->push_back(*name);
    }
    rows.push_back(std::move(row));
  }
};

bool is_plain(const Json& row) {
  return row.contains("num_workers") && !row.contains("loader") && !row.contains("world_size");
}

std::string word_of(const Json& json, const char* key) {
  const Json value = json.value(key, Json());
  return value.is_string() ? value.get<std::string>()
         : value.is_null() ? ""
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Whole numbers by size, then words.
bool before(const std::string& a, const std::string& b) {
  const auto number = [](const std::string& text) {
    const bool digits =
        !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
    return digits ? std::optional(std::stol(text)) : std::nullopt;
  };
  const auto first = number(a), second = number(b);
  return first && second ? *first < *second : first.has_value() && !second;
}

// Returns the names of the swept settings if all rows share them.
std::string swept_names(const Json& row) {
  std::string names;
  const Json swept = row.value("swept", Json::object());
  for (const auto& [name, value] : swept.items()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

std::string swept_values(const Json& row) {
  const std::string text = swept_text(row);
  // One setting needs no name before each value.
  const Json swept = row.value("swept", Json::object());
  return swept.size() == 1 ? text.substr(text.find('=') + 1) : text;
}

PlacedRows place_rows(const std::vector<Input>& inputs) {
  std::set<std::string> workers, pages;
  std::string swept;
  const auto each_row = [&](const auto& use) {
    std::size_t count = 0;
    for (const Input& input : inputs) {
      if (input.kind != Input::Kind::bench || !input.bench.contains("rows")) continue;
      for (const Json& row : input.bench.at("rows")) {
        if (is_plain(row) && ++count <= kMostRows) use(input, row);
      }
    }
  };
  each_row([&](const Input&, const Json& row) {
    workers.insert(word_of(row, "num_workers"));
    pages.insert(word_of(row, "page_cache"));
    if (row.contains("swept")) swept = swept_names(row);
  });
  // With one number of workers, the swept settings are what the rows differ by.
  const bool by_sweep = workers.size() == 1 && !swept.empty();
  PlacedRows placed;
  if (by_sweep) placed.x_name = shortened(swept, 40);
  each_row([&](const Input& input, const Json& row) {
    std::string rest = pages.size() > 1 ? word_of(row, "page_cache") : "";
    if (!by_sweep && row.contains("swept"))
      rest += (rest.empty() ? "" : ", ") + shortened(swept_text(row), 60);
    placed.add({.row = &row,
                .position = by_sweep ? swept_values(row) : word_of(row, "num_workers"),
                .line = line_name(inputs, input, rest)});
  });
  if (!by_sweep) std::ranges::stable_sort(placed.positions, before);
  return placed;
}

using ValueOf = std::function<std::optional<double>(const Json& row)>;

ValueOf member(const char* key) {
  return [key](const Json& row) { return number_in(row, key); };
}

// Returns the samples/s that a row would reach at the limit of the machine, from its share of it.
std::optional<double> rate_at_limit(const Json& row) {
  const auto rate = number_in(row, "samples_per_s");
  for (const char* const key : {"share_of_cold_limit", "share_of_limit"}) {
    const auto share = number_in(row, key);
    if (rate && share && *share > 0) return *rate / *share;
  }
  return std::nullopt;
}

std::optional<std::pair<double, double>> repetitions_of(const Json& row) {
  const auto found = row.find("repetitions");
  if (found == row.end() || !found->is_array()) return std::nullopt;
  std::optional<std::pair<double, double>> range;
  for (const Json& value : *found) {
    if (!value.is_number()) return std::nullopt;
    const auto rate = value.get<double>();
    range = range ? std::pair(std::min(range->first, rate), std::max(range->second, rate))
                  : std::pair(rate, rate);
  }
  return range;
}

std::vector<ChartSeries> lines_of(const PlacedRows& placed, const ValueOf& value, bool with_ranges) {
  std::vector<ChartSeries> all;
  for (const std::string& line : placed.lines) {
    ChartSeries series{.name = line, .style = all.size()};
    series.values.resize(placed.positions.size());
    if (with_ranges) series.ranges.resize(placed.positions.size());
    for (const PlacedRow& row : placed.rows) {
      if (row.line != line) continue;
      const auto at = static_cast<std::size_t>(std::ranges::find(placed.positions, row.position) -
                                               placed.positions.begin());
      series.values[at] = value(*row.row);
      if (with_ranges) series.ranges[at] = repetitions_of(*row.row);
    }
    all.push_back(std::move(series));
  }
  return all;
}

Chart chart_of(const PlacedRows& placed, std::string title, std::string note, const ValueOf& value) {
  Chart chart{.title = std::move(title),
              .note = std::move(note),
              .x_name = placed.x_name,
              .labels = placed.positions};
  chart.series = lines_of(placed, value, false);
  return chart;
}

double largest_of(const Chart& chart) {
  double largest = 0;
  for (const ChartSeries& series : chart.series) {
    for (const auto& value : series.values) largest = std::max(largest, value.value_or(0));
  }
  return largest;
}

Chart rate_chart(const PlacedRows& placed) {
  Chart chart =
      chart_of(placed, "Samples per second", "Median of the repetitions; a vertical line spans them all.",
               member("samples_per_s"));
  chart.series = lines_of(placed, member("samples_per_s"), true);
  bool limited = false;
  for (ChartSeries& limit : lines_of(placed, rate_at_limit, false)) {
    if (std::ranges::none_of(limit.values, [](const auto& value) { return value.has_value(); })) continue;
    limit.dashed = limited = true;
    limit.name = limit.name.empty() ? "limit" : limit.name + ", limit";
    chart.series.push_back(std::move(limit));
  }
  if (limited)
    chart.note +=
        " Dashed: the rate at the limit of the machine, which the same run measured with threads that only "
        "read "
        "and decode, or read rows.";
  chart.scale = scale_of(Unit::samples_per_s, 0);
  return chart;
}

// Rates of one and more processes.
std::optional<Chart> ranks_chart(const std::vector<Input>& inputs) {
  PlacedRows placed{.x_name = "processes"};
  for (const Input& input : inputs) {
    if (input.kind != Input::Kind::bench || !input.bench.contains("rows")) continue;
    for (const Json& row : input.bench.at("rows")) {
      if (row.contains("world_size") && placed.rows.size() < kMostRows)
        placed.add({&row, word_of(row, "world_size"),
                    line_name(inputs, input, "num_workers=" + word_of(row, "num_workers"))});
    }
  }
  if (placed.rows.empty()) return std::nullopt;
  std::ranges::stable_sort(placed.positions, before);
  Chart chart = chart_of(placed, "Samples per second of all processes", "They share the samples of the file.",
                         member("samples_per_s"));
  chart.scale = scale_of(Unit::samples_per_s, 0);
  return chart;
}

}  // namespace

std::string line_name(const std::vector<Input>& inputs, const Input& input, const std::string& rest) {
  if (inputs.size() == 1) return rest.empty() ? input.label : rest;
  return rest.empty() ? input.label : input.label + ", " + rest;
}

std::vector<Chart> bench_charts(const std::vector<Input>& inputs) {
  std::vector<Chart> charts;
  if (auto ranks = ranks_chart(inputs)) charts.push_back(std::move(*ranks));
  const PlacedRows placed = place_rows(inputs);
  if (placed.rows.empty()) return charts;
  charts.push_back(rate_chart(placed));
  const auto add = [&](Chart chart, Unit unit) {
    chart.scale = scale_of(unit, largest_of(chart));
    charts.push_back(std::move(chart));
  };
  add(chart_of(placed, "Waiting", "Share of the time that the training waited for a batch.",
               member("wait_fraction")),
      Unit::share);
  add(chart_of(placed, "Cache hits", "Share of the visits of chunks that were served from memory.",
               member("cache_hit_rate")),
      Unit::share);
  Chart decodes =
      chart_of(placed, "Decodes per chunk",
               "Decoded bytes for each byte of the samples delivered. 1: every chunk is decoded once an "
               "epoch; 0: nothing is decoded, but all rows come from memory.",
               member("read_amplification"));
  decodes.scale = {.text = "times"};
  charts.push_back(std::move(decodes));
  Chart cpu =
      chart_of(placed, "CPU time", "Of all threads, for 1,000 samples.", member("cpu_s_per_1k_samples"));
  cpu.scale = {.text = "s / 1,000 samples"};
  charts.push_back(std::move(cpu));
  add(chart_of(placed, "Peak memory", "Of the process that measured the row.", member("peak_rss_bytes")),
      Unit::bytes);
  return charts;
}

}  // namespace h5feed::cli
