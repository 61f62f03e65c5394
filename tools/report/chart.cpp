// SPDX-License-Identifier: Apache-2.0
// The figure of a chart: what surrounds its SVG.
#include "tools/report/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/byte_units.hpp"
#include "tools/report/html.hpp"

namespace h5feed::cli {
namespace {

std::string in_scale(double value, const Scale& scale) { return shown_number(value / scale.size); }

// Names the chart for a screen reader, with what its lines show.
std::string spoken(const Chart& chart) {
  std::string text = fmt::format("Chart: {}, by {}.", chart.title, chart.x_name);
  for (const ChartSeries& series : chart.series) {
    std::vector<double> values;
    for (const auto& value : series.values) {
      if (value) values.push_back(*value);
    }
    if (values.empty()) continue;
    const auto [least, most] = std::ranges::minmax_element(values);
    text += fmt::format(" {}: {} to {} {}, in the end {}.", series.name, in_scale(*least, chart.scale),
                        in_scale(*most, chart.scale), chart.scale.text, in_scale(values.back(), chart.scale));
  }
  return text + " The table of values follows.";
}

std::string legend(const Chart& chart) {
  std::string html = "<ul class=\"legend\">";
  for (const ChartSeries& series : chart.series)
    html += fmt::format("<li>{}{}</li>", swatch_svg(series, chart.kind), escaped(series.name));
  return html + "</ul>";
}

std::string cell(const ChartSeries& series, std::size_t position, const Scale& scale) {
  const auto& value = series.values[position];
  if (!value) return "<td>–</td>";
  std::string range;
  if (!series.ranges.empty() && series.ranges[position]) {
    const auto& [low, high] = *series.ranges[position];
    range = fmt::format(" ({} … {})", in_scale(low, scale), in_scale(high, scale));
  }
  return fmt::format("<td data-v=\"{}\">{}{}</td>", exact_number(*value), in_scale(*value, scale), range);
}

std::string table(const Chart& chart) {
  const bool timed = chart.labels.empty();
  const Scale time = time_scale(timed ? chart.seconds.back() : 0);
  std::string html = fmt::format(
      "<details><summary>Table: {0}</summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"Table: {0}\"><table><thead><tr><th scope=\"col\">{1}</th>",
      escaped(chart.title), escaped(timed ? fmt::format("{} ({})", chart.x_name, time.text) : chart.x_name));
  for (const ChartSeries& series : chart.series)
    html += fmt::format("<th scope=\"col\">{} ({})</th>", escaped(series.name), escaped(chart.scale.text));
  html += "</tr></thead><tbody>";
  for (std::size_t i = 0; i < chart.positions(); ++i) {
    html += fmt::format("<tr data-x=\"{:.0f}\"><th scope=\"row\">{}</th>", chart_x(chart, i),
                        timed ? in_scale(chart.seconds[i], time) : escaped(chart.labels[i]));
    for (const ChartSeries& series : chart.series) html += cell(series, i, chart.scale);
    html += "</tr>";
  }
  return html + "</tbody></table></div></details>";
}

// Removes the series beyond `kMostSeries`, and says so.
void limit_series(Chart& chart) {
  if (chart.series.size() <= kMostSeries) return;
  const std::size_t more = chart.series.size() - kMostSeries;
  chart.note += fmt::format("{}{} more {} not shown.", chart.note.empty() ? "" : " ", more,
                            more == 1 ? "line is" : "lines are");
  chart.series.resize(kMostSeries);
}

}  // namespace

Scale scale_of(Unit unit, double largest) {
  switch (unit) {
    case Unit::share:
      return {.text = "%", .size = 0.01, .top = 1};
    case Unit::bytes:
    case Unit::bytes_per_s: {
      const std::string rate = unit == Unit::bytes ? "" : "/s";
      for (const auto& [text, size] : {std::pair("GiB", kGiB), {"MiB", kMiB}, {"KiB", kKiB}}) {
        if (largest >= static_cast<double>(size)) return {text + rate, static_cast<double>(size)};
      }
      return {"B" + rate};
    }
    case Unit::samples_per_s:
      return {"samples/s"};
    case Unit::cores:
      return {"cores"};
    case Unit::count:
      return {""};
    case Unit::watt:
      return {"W"};
    case Unit::celsius:
      return {"°C"};
    case Unit::mhz:
      return {"MHz"};
  }
  return {};
}

Scale time_scale(double largest) {
  constexpr double kMinute = 60, kHour = 3600, kMany = 10;
  if (largest >= kMany * kHour) return {"h", kHour};
  if (largest >= kMany * kMinute) return {"min", kMinute};
  return {"s"};
}

bool Chart::has_values() const noexcept {
  return std::ranges::any_of(series, [](const ChartSeries& each) {
    return std::ranges::any_of(each.values, [](const auto& value) { return value.has_value(); });
  });
}

std::string chart_html(Chart chart) {
  limit_series(chart);
  std::string html = fmt::format("<figure class=\"chart\"><figcaption><h3>{}</h3>", escaped(chart.title));
  if (!chart.note.empty()) html += fmt::format("<p>{}</p>", escaped(chart.note));
  html += "</figcaption>" + legend(chart);
  html +=
      fmt::format("<div class=\"plot\">{}</div>{}</figure>\n", chart_svg(chart, spoken(chart)), table(chart));
  return html;
}

std::string bars_html(const std::string& title, const std::string& note, const std::vector<Bar>& bars) {
  double largest = 0;
  for (const Bar& bar : bars) largest = std::max(largest, bar.value);
  std::string html =
      fmt::format("<figure class=\"bars\"><figcaption><h3>{}</h3><p>{}</p></figcaption><table><tbody>",
                  escaped(title), escaped(note));
  for (const Bar& bar : bars) {
    const double width = largest > 0 ? std::clamp(bar.value / largest, 0.0, 1.0) * 100 : 0;
    html += fmt::format(
        "<tr><th scope=\"row\">{}</th><td data-v=\"{}\">{}<svg viewBox=\"0 0 100 8\" "
        "preserveAspectRatio=\"none\" "
        "aria-hidden=\"true\"><path class=\"st w1\" d=\"M0 0H{:.1f}V8H0Z\"/></svg>{}</td></tr>",
        escaped(bar.name), exact_number(bar.value), escaped(bar.text), width,
        bar.note.empty() ? "" : fmt::format("<small>{}</small>", escaped(bar.note)));
  }
  return html + "</tbody></table></figure>\n";
}

}  // namespace h5feed::cli
