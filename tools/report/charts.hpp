// SPDX-License-Identifier: Apache-2.0
// Which charts the inputs of a report make.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/report/chart.hpp"
#include "tools/report/input.hpp"

namespace h5feed::cli {

/// Returns the figures of all results of `bench`, as HTML; empty if there is none.
std::string bench_figures(const std::vector<Input>& inputs);
/// Returns the charts of the rows of `bench`: rate and limits, waiting, cache, decoding, CPU time, memory.
std::vector<Chart> bench_charts(const std::vector<Input>& inputs);

/// Returns the charts of all records of `monitor`, over time, with at most `points` points a line.
std::vector<Chart> monitor_charts(const std::vector<Input>& inputs, std::size_t points);

/// Returns the charts of the epochs of all loaders, with at most `points` epochs each; more are joined.
std::vector<Chart> loader_charts(const std::vector<Input>& inputs, std::size_t points);

/// Returns the name of a line of a chart: the input's label if there are several inputs, and what else tells
/// the line from others, which may be empty.
std::string line_name(const std::vector<Input>& inputs, const Input& input, const std::string& rest);

}  // namespace h5feed::cli
