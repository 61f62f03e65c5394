// SPDX-License-Identifier: Apache-2.0
// Charts of records of `monitor`, over the time since their start.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "tools/report/charts.hpp"

namespace h5feed::cli {
namespace {

// GPUs of one input that have a line each; of more, their mean is shown.
constexpr std::size_t kMostGpuLines = 4;

// One line of a chart over time: the readings of all its sources together.
struct TimedLine {
  std::string name;
  std::vector<const TimeSeries*> sources;
};

// The common grid of all lines: readings of one step become one point.
struct Grid {
  double step_s = 1;
  bool joins = false;  // several readings become one point

  static Grid of(const std::vector<Input>& inputs, std::size_t points) {
    double longest = 0, interval = 0;
    for (const Input& input : inputs) {
      if (input.kind != Input::Kind::monitor) continue;
      longest = std::max(longest, input.monitor.seconds());
      for (const auto& [name, series] : input.monitor.series) {
        if (series.size() < 2) continue;
        const double span = series.back().first - series.front().first;
        interval = std::max(interval, span / static_cast<double>(series.size() - 1));
      }
    }
    const double coarse = longest / static_cast<double>(points);
    const double step = std::max(coarse, interval);
    return {.step_s = step > 0 ? step : 1, .joins = coarse > interval * 1.01};
  }

  std::size_t index(double time_s) const { return static_cast<std::size_t>(std::max(0.0, time_s / step_s)); }
};

struct Mean {
  double sum = 0;
  std::size_t count = 0;

  void add(double value) {
    sum += value;
    ++count;
  }
  std::optional<double> value() const {
    return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
  }
};

// One reading of one source of a line.
struct Reading {
  double time_s;
  std::size_t line;
  const TimeSeries* source;
  double value;
};

// One position of a chart: the means of the readings there.
struct TimedPosition {
  Mean time;
  std::vector<Mean> lines;
  std::set<const TimeSeries*> sources;
};

// Joins readings to positions: all of a step of the grid, or, if no readings have to be joined, those of
// different sources that belong together.
std::vector<TimedPosition> positions_of(const Grid& grid, const std::vector<TimedLine>& lines) {
  std::vector<Reading> readings;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (const TimeSeries* const source : lines[i].sources) {
      for (const auto& [time, value] : *source) readings.push_back({time, i, source, value});
    }
  }
  std::ranges::stable_sort(readings, {}, &Reading::time_s);
  std::vector<TimedPosition> positions;
  double begin = 0;
  for (const Reading& reading : readings) {
    const bool apart = grid.joins ? grid.index(reading.time_s) != grid.index(begin)
                                  : reading.time_s - begin > grid.step_s / 2;
    if (positions.empty() || apart || (!grid.joins && positions.back().sources.contains(reading.source))) {
      positions.push_back({.time = {}, .lines = std::vector<Mean>(lines.size()), .sources = {}});
      begin = reading.time_s;
    }
    positions.back().time.add(reading.time_s);
    positions.back().lines[reading.line].add(reading.value);
    positions.back().sources.insert(reading.source);
  }
  return positions;
}

Chart chart_over_time(const Grid& grid, const std::string& title, const std::string& note, Unit unit,
                      const std::vector<TimedLine>& lines) {
  const std::vector<TimedPosition> positions = positions_of(grid, lines);
  Chart chart{.title = title, .note = note, .x_name = "time since the start"};
  for (const TimedPosition& position : positions) chart.seconds.push_back(position.time.value().value_or(0));
  double largest = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ChartSeries series{.name = lines[i].name, .style = i};
    for (const TimedPosition& position : positions) {
      series.values.push_back(position.lines[i].value());
      largest = std::max(largest, series.values.back().value_or(0));
    }
    chart.series.push_back(std::move(series));
  }
  chart.scale = scale_of(unit, largest);
  return chart;
}

// Lines of one quantity, one for each record that has it.
class Lines {
 public:
  explicit Lines(const std::vector<Input>& inputs) : inputs_(inputs) {}

  Lines& add(const std::string& key, const std::string& name) {
    for (const Input& input : inputs_) {
      const auto found = input.monitor.series.find(key);
      if (found != input.monitor.series.end())
        lines_.push_back({line_name(inputs_, input, name), {&found->second}});
    }
    return *this;
  }
  // A quantity of the GPUs: a line for each, or their mean.
  Lines& add_gpus(const std::string& key) {
    for (const Input& input : inputs_) {
      std::vector<TimedLine> own;
      TimedLine mean;
      for (const auto& [gpu, address] : input.monitor.gpus) {
        const auto found = input.monitor.series.find(fmt::format("gpu{}/{}", gpu, key));
        if (found == input.monitor.series.end()) continue;
        own.push_back({line_name(inputs_, input, fmt::format("GPU {}", gpu)), {&found->second}});
        mean.sources.push_back(&found->second);
      }
      if (own.size() <= kMostGpuLines) {
        lines_.insert(lines_.end(), own.begin(), own.end());
      } else {
        mean.name = line_name(inputs_, input, fmt::format("mean of {} GPUs", own.size()));
        lines_.push_back(std::move(mean));
      }
    }
    return *this;
  }
  const std::vector<TimedLine>& all() const noexcept { return lines_; }

 private:
  const std::vector<Input>& inputs_;
  std::vector<TimedLine> lines_;
};

// Shades the findings of the only record, by their number in its verdict.
std::vector<ChartBand> findings_of(const std::vector<Input>& inputs) {
  constexpr double kWholeRun = 0.9;
  std::vector<ChartBand> bands;
  const Input* only = nullptr;
  for (const Input& input : inputs) {
    if (input.kind != Input::Kind::monitor) continue;
    if (only != nullptr) return {};
    only = &input;
  }
  if (only == nullptr || !only->monitor.summary.is_object()) return {};
  const Json findings = only->monitor.summary.value("findings", Json::array());
  std::size_t number = 0;
  for (const Json& finding : findings) {
    ++number;
    const auto from = number_in(finding, "from_s"), to = number_in(finding, "to_s");
    if (!from || !to || *to - *from > kWholeRun * only->monitor.seconds()) continue;
    bands.push_back({.from = *from, .to = *to, .name = std::to_string(number)});
    if (bands.size() == kMostSeries) break;
  }
  return bands;
}

}  // namespace

std::vector<Chart> monitor_charts(const std::vector<Input>& inputs, std::size_t points) {
  const Grid grid = Grid::of(inputs, points);
  const std::string joined =
      grid.joins ? fmt::format(" A point is the mean of the readings of {:.3g} s.", grid.step_s) : "";
  const std::vector<ChartBand> bands = findings_of(inputs);
  const std::string shaded = bands.empty() ? "" : " Shaded: the findings of these numbers.";
  std::vector<Chart> charts;
  const auto add = [&](const std::string& title, const std::string& note, Unit unit, const Lines& lines) {
    if (lines.all().empty()) return;
    charts.push_back(chart_over_time(grid, title, note + joined + shaded, unit, lines.all()));
    charts.back().bands = bands;
  };
  const Lines gpus = Lines(inputs).add_gpus("busy");
  if (gpus.all().empty()) {
    add("Waiting for batches", "Share of the time that the training waited for a batch.", Unit::share,
        Lines(inputs).add("loader/wait", "waiting"));
  } else {
    add("Use of the GPUs, and waiting for batches",
        "Share of the time in which a kernel ran, and in which the training waited for a batch.", Unit::share,
        Lines(inputs).add_gpus("busy").add("loader/wait", "waiting"));
  }
  add("Samples delivered", "By all loaders of the watched processes.", Unit::samples_per_s,
      Lines(inputs).add("loader/samples_per_s", ""));
  add("Processor and storage",
      "Share of all CPUs that were busy, and of the time in which the busiest disk had work.", Unit::share,
      Lines(inputs).add("machine/cpu_busy", "processor").add("machine/disk_busy", "disk"));
  add("Reads from disks", "All disks together; what comes from the page cache is no read.", Unit::bytes_per_s,
      Lines(inputs).add("machine/disk_read_bytes_per_s", ""));
  add("Memory", "Of the watched processes, and memory of the machine in use.", Unit::bytes,
      Lines(inputs).add("process/rss_bytes", "processes").add("machine/memory_used_bytes", "machine"));
  add("Memory of the GPUs", "In use, by all processes.", Unit::bytes,
      Lines(inputs).add_gpus("memory_used_bytes"));
  return charts;
}

}  // namespace h5feed::cli
