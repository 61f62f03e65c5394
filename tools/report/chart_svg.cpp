// SPDX-License-Identifier: Apache-2.0
// The SVG of a chart. Colours and sizes of its text are in page.css.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "tools/program/table.hpp"
#include "tools/report/chart.hpp"
#include "tools/report/html.hpp"
#include "tools/report/ticks.hpp"

namespace h5feed::cli {
namespace {

// The view box, and its part that the axes enclose. page.js knows the width.
constexpr double kWidth = 480, kHeight = 280;
constexpr double kLeft = 56, kRight = kWidth - 18, kTop = 32, kBottom = kHeight - 50;
constexpr double kMarker = 4.5;
constexpr double kCharacter = 9;  // width of a character of a label, on a narrow screen
constexpr std::size_t kLongestLabel = 14;
constexpr int kTicks = 5;
// Lines of more points have a marker only here and there.
constexpr std::size_t kAllMarked = 24;

// Returns a coordinate with one decimal, or none if that is 0.
std::string at(double coordinate) {
  std::string text = fmt::format("{:.1f}", coordinate);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string points_of(std::initializer_list<std::pair<double, double>> points) {
  std::string path;
  for (const auto& [x, y] : points) path += fmt::format("{}{} {}", path.empty() ? 'M' : 'L', at(x), at(y));
  return path + 'Z';
}

// Returns the path of a marker; eight shapes take turns.
std::string marker_path(std::size_t style, double x, double y) {
  const double r = kMarker, s = r * 0.9;
  switch (style % 8) {
    case 1:
      return points_of({{x - s, y - s}, {x + s, y - s}, {x + s, y + s}, {x - s, y + s}});
    case 2:
      return points_of({{x, y - r * 1.2}, {x + r * 1.1, y + s}, {x - r * 1.1, y + s}});
    case 3:
      return points_of({{x, y - r * 1.3}, {x + r * 1.3, y}, {x, y + r * 1.3}, {x - r * 1.3, y}});
    case 4:
      return points_of({{x, y + r * 1.2}, {x + r * 1.1, y - s}, {x - r * 1.1, y - s}});
    case 5:
      return points_of(
          {{x - r * 1.4, y - 2}, {x + r * 1.4, y - 2}, {x + r * 1.4, y + 2}, {x - r * 1.4, y + 2}});
    case 6:
      return points_of(
          {{x - 2, y - r * 1.4}, {x + 2, y - r * 1.4}, {x + 2, y + r * 1.4}, {x - 2, y + r * 1.4}});
    case 7:
      return points_of({{x - r * 1.2, y}, {x + s, y - r * 1.1}, {x + s, y + r * 1.1}});
    default:
      return fmt::format("M{} {}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0Z", at(x - r), at(y),
                         fmt::arg("r", at(r)), fmt::arg("d", at(2 * r)));
  }
}

double largest_value(const Chart& chart) {
  double largest = 0;
  for (std::size_t i = 0; i < chart.positions(); ++i) {
    double sum = 0;
    for (const ChartSeries& series : chart.series) {
      const double value = series.values[i].value_or(0);
      sum = chart.kind == Chart::Kind::stack ? sum + std::max(0.0, value) : std::max(sum, value);
      if (!series.ranges.empty() && series.ranges[i]) sum = std::max(sum, series.ranges[i]->second);
    }
    largest = std::max(largest, sum);
  }
  return largest;
}

// Draws one chart.
class Drawing {
 public:
  explicit Drawing(const Chart& chart)
      : chart_(chart),
        top_(chart.scale.top.value_or(largest_value(chart)) / chart.scale.size),
        ticks_(ticks_up_to(top_, kTicks)) {}

  std::string svg(const std::string& name) {
    text_ = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">", kWidth, kHeight,
                        escaped(name));
    bands();
    value_axis();
    if (chart_.labels.empty()) {
      time_axis();
    } else {
      label_axis();
    }
    if (chart_.kind == Chart::Kind::stack) {
      stack();
    } else {
      for (const ChartSeries& series : chart_.series) line(series);
    }
    return text_ + "</svg>";
  }

 private:
  template <typename... T>
  void add(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<T>(values)...);
  }

  double y(double value) const {
    const double share = std::clamp(value / chart_.scale.size / ticks_.top(), 0.0, 1.0);
    return kBottom - share * (kBottom - kTop);
  }

  void value_axis() {
    add("<text x=\"6\" y=\"18\">{}</text>", escaped(chart_.scale.text));
    for (const double value : ticks_.values) {
      const double height = y(value * chart_.scale.size);
      add("<path class=\"{}\" d=\"M{} {}H{}\"/><text class=\"e\" x=\"{}\" y=\"{}\">{}</text>",
          value == 0 ? "ax" : "g", at(kLeft), at(height), at(kRight), at(kLeft - 7), at(height + 5),
          ticks_.text(value));
    }
  }

  void x_name(const std::string& name) {
    add("<text class=\"m\" x=\"{}\" y=\"{}\">{}</text>", at((kLeft + kRight) / 2), at(kHeight - 8),
        escaped(name));
  }

  void time_axis() {
    const double longest = chart_.seconds.empty() ? 0 : chart_.seconds.back();
    const Scale scale = time_scale(longest);
    const Ticks ticks = ticks_up_to(longest / scale.size, kTicks);
    for (const double value : ticks.values) {
      if (value * scale.size > longest * (1 + 1e-9) && value > 0) break;
      const double x = time_x(value * scale.size, longest);
      add("<path class=\"ax\" d=\"M{} {}v5\"/><text class=\"m\" x=\"{}\" y=\"{}\">{}</text>", at(x),
          at(kBottom), at(x), at(kBottom + 20), ticks.text(value));
    }
    x_name(fmt::format("{} ({})", chart_.x_name, scale.text));
  }

  void label_axis() {
    std::vector<std::string> labels;
    std::size_t widest = 1;
    for (const std::string& label : chart_.labels) {
      labels.push_back(shortened(label, kLongestLabel));
      widest = std::max(widest, display_width(labels.back()));
    }
    const double room = (kRight - kLeft) / static_cast<double>(labels.size());
    const double needed = static_cast<double>(widest) * kCharacter + kCharacter;
    const auto every = static_cast<std::size_t>(std::max(1.0, std::ceil(needed / room)));
    for (std::size_t i = 0; i < labels.size(); i += every) {
      add("<text class=\"m\" x=\"{}\" y=\"{}\">{}</text>", at(chart_x(chart_, i)), at(kBottom + 20),
          escaped(labels[i]));
    }
    x_name(chart_.x_name);
  }

  static double time_x(double seconds, double longest) {
    if (longest <= 0) return (kLeft + kRight) / 2;
    return kLeft + std::clamp(seconds / longest, 0.0, 1.0) * (kRight - kLeft);
  }
  friend double cli::chart_x(const Chart& chart, std::size_t position);

  void bands() {
    if (chart_.seconds.empty()) return;
    for (const ChartBand& band : chart_.bands) {
      const double from = time_x(band.from, chart_.seconds.back());
      const double to = std::max(from + 2, time_x(band.to, chart_.seconds.back()));
      add("<path class=\"band\" d=\"M{} {}H{}V{}H{}Z\"/><text class=\"m\" x=\"{}\" y=\"{}\">{}</text>",
          at(from), at(kTop), at(to), at(kBottom), at(from), at(std::clamp((from + to) / 2, from, to)),
          at(kTop - 4), escaped(band.name));
    }
  }

  // Positions without a value that a line passes over: those that another input has.
  std::size_t passed_over() const { return chart_.labels.empty() ? 3 : chart_.positions(); }
  bool connected(const ChartSeries& series, std::size_t position) const {
    for (std::size_t back = 1; back <= std::min(position, passed_over()); ++back) {
      if (series.values[position - back]) return true;
    }
    return false;
  }
  bool leads_on(const ChartSeries& series, std::size_t position) const {
    for (std::size_t on = 1; on <= passed_over() && position + on < chart_.positions(); ++on) {
      if (series.values[position + on]) return true;
    }
    return false;
  }

  void line(const ChartSeries& series) {
    std::string path, markers, ranges;
    const std::size_t count = chart_.positions();
    const std::size_t every = count <= kAllMarked ? 1 : count / 6;
    for (std::size_t i = 0; i < count; ++i) {
      if (!series.values[i]) continue;
      const double x = chart_x(chart_, i), height = y(*series.values[i]);
      const bool follows = connected(series, i);
      const bool alone = !follows && !leads_on(series, i);
      path += fmt::format("{}{} {}", follows ? 'L' : 'M', at(x), at(height));
      if (alone && series.dashed) path += "m-9 0h18";
      if (!series.dashed && (alone || (i + series.style * every / kMostSeries) % every == 0))
        markers += marker_path(series.style, x, height);
      if (!series.ranges.empty() && series.ranges[i])
        ranges +=
            fmt::format("M{} {}V{}", at(x), at(y(series.ranges[i]->first)), at(y(series.ranges[i]->second)));
    }
    add("<g class=\"s{}\">", series.style % kMostSeries);
    if (!ranges.empty()) add("<path class=\"rg\" d=\"{}\"/>", ranges);
    add("<path class=\"{}\" d=\"{}\"/>", series.dashed ? "ln da" : "ln", path);
    if (!markers.empty()) add("<path class=\"mk\" d=\"{}\"/>", markers);
    text_ += "</g>";
  }

  void stack() {
    const double room = (kRight - kLeft) / static_cast<double>(std::max<std::size_t>(1, chart_.positions()));
    const double half = std::min(28.0, room * 0.36);
    std::vector<double> below(chart_.positions(), 0);
    for (const ChartSeries& series : chart_.series) {
      std::string path;
      for (std::size_t i = 0; i < chart_.positions(); ++i) {
        const double value = std::max(0.0, series.values[i].value_or(0));
        const double from = y(below[i]), to = y(below[i] + value);
        below[i] += value;
        if (from - to < 0.05) continue;
        const double x = chart_x(chart_, i);
        path += fmt::format("M{} {}H{}V{}H{}Z", at(x - half), at(from), at(x + half), at(to), at(x - half));
      }
      if (!path.empty()) add("<path class=\"st w{}\" d=\"{}\"/>", series.style % kMostSeries, path);
    }
  }

  const Chart& chart_;
  const double top_;
  const Ticks ticks_;
  std::string text_;
};

}  // namespace

double chart_x(const Chart& chart, std::size_t position) {
  if (chart.labels.empty()) return Drawing::time_x(chart.seconds[position], chart.seconds.back());
  const double room = (kRight - kLeft) / static_cast<double>(chart.labels.size());
  return kLeft + room * (static_cast<double>(position) + 0.5);
}

std::string chart_svg(const Chart& chart, const std::string& name) { return Drawing(chart).svg(name); }

std::string swatch_svg(const ChartSeries& series, Chart::Kind kind) {
  const std::size_t style = series.style % kMostSeries;
  std::string drawn;
  if (kind == Chart::Kind::stack) {
    drawn = fmt::format("<path class=\"st w{}\" d=\"M6 1h14v12h-14Z\"/>", style);
  } else {
    drawn = fmt::format(
        "<g class=\"s{}\"><path class=\"{}\" d=\"M1 7h24\"/>{}</g>", style, series.dashed ? "ln da" : "ln",
        series.dashed ? "" : fmt::format("<path class=\"mk\" d=\"{}\"/>", marker_path(style, 13, 7)));
  }
  return fmt::format("<svg class=\"sw\" viewBox=\"0 0 26 14\" aria-hidden=\"true\">{}</svg>", drawn);
}

}  // namespace h5feed::cli
