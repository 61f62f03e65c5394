// SPDX-License-Identifier: Apache-2.0
// Charts of a page: what they show, and their HTML: an inline SVG, its legend, and a table of the same
// values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/monitor/record.hpp"

namespace h5feed::cli {

/// Unit in which an axis and its table show values: `text` after dividing by `size`.
struct Scale {
  std::string text;
  double size = 1;
  std::optional<double> top = {};  ///< The axis ends at this value, not above the largest one
};

/// Returns the scale of values up to `largest`: bytes are shown in KiB, MiB …
Scale scale_of(Unit unit, double largest);
/// Returns the scale of seconds up to `largest`: s, min or h.
Scale time_scale(double largest);

/// Values of a chart, one for each of its positions; unset where there is none.
struct ChartSeries {
  std::string name;
  std::size_t style = 0;  ///< Number of its colour and marker
  bool dashed = false;    ///< A limit: a dashed line without markers
  std::vector<std::optional<double>> values = {};
  /// The smallest and largest repetition behind each value, drawn as a vertical line; may be empty.
  std::vector<std::optional<std::pair<double, double>>> ranges = {};
};

/// A stretch of an axis of time that is shaded, in seconds.
struct ChartBand {
  double from = 0, to = 0;
  std::string name;
};

/// A chart. Names and labels are text of any origin, not HTML.
struct Chart {
  enum class Kind { lines, stack };

  Kind kind = Kind::lines;
  std::string title;
  std::string note;                      ///< Sentences below the title
  std::string x_name;                    ///< What the positions are: "workers"
  std::vector<std::string> labels = {};  ///< Names of positions at equal distances
  std::vector<double> seconds = {};      ///< Instead of `labels`: positions on an axis of time
  Scale scale = {};
  std::vector<ChartSeries> series = {};
  std::vector<ChartBand> bands = {};

  std::size_t positions() const noexcept { return labels.empty() ? seconds.size() : labels.size(); }
  /// Returns whether there is a value to draw.
  bool has_values() const noexcept;
};

/// Most series of one chart.
inline constexpr std::size_t kMostSeries = 8;

/// Returns the SVG of a chart. Its name for screen readers is `name`.
std::string chart_svg(const Chart& chart, const std::string& name);
/// Returns the swatch of a series in a legend, as SVG.
std::string swatch_svg(const ChartSeries& series, Chart::Kind kind);
/// Returns the x coordinate of a position in the SVG.
double chart_x(const Chart& chart, std::size_t position);

/// Returns the figure of a chart: SVG, legend and table. A chart of more than `kMostSeries` series shows the
/// first of them and says so.
std::string chart_html(Chart chart);

/// A value under a name, shown as a bar.
struct Bar {
  std::string name;
  double value = 0;
  std::string text;  ///< The value for people
  std::string note;  ///< A few words after it
};

/// Returns a table whose values are drawn as bars from zero.
std::string bars_html(const std::string& title, const std::string& note, const std::vector<Bar>& bars);

}  // namespace h5feed::cli
