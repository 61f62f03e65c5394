// SPDX-License-Identifier: Apache-2.0
// Results of the GPU benchmarks as rows of JSON.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace h5feed::bench {

/// Repetitions of a measurement and of its ceiling, measured in turn.
struct Pairs {
  std::vector<double> values;
  std::vector<double> ceilings;
};

/// Calls both functions `repetitions` times, in an order that changes each time, so that warm-up or heat does
/// not favour one of them. One uncounted pair runs first, to load what is loaded at first use.
Pairs alternate(int repetitions, const std::function<double()>& value,
                const std::function<double()>& ceiling);

/// One row of the result. `ratio` is value / ceiling, both medians.
struct Row {
  std::string name;
  std::string unit;
  Pairs pairs;
  std::string note;     ///< meaning of value and ceiling
  std::string not_run;  ///< why there is no value; empty if there is one

  /// Returns the median of the measured values.
  double value() const;
  /// Returns the median of the ceilings.
  double ceiling() const;
  double ratio() const;
};

/// Returns {"name","value","unit","ceiling","ratio","repetitions","ceiling_repetitions","note"}; for a row
/// that did not run {"name","value","unit","ceiling","ratio","repetitions","not_run"}, with null figures.
nlohmann::ordered_json to_json(const Row& row);

/// Result file {"rows":[…]}, rewritten after each added row, so that a run that is stopped keeps its rows.
class ResultFile {
 public:
  /// Writes to `path`; nothing if it is empty. Throws std::runtime_error if `path` cannot be written.
  explicit ResultFile(std::filesystem::path path);
  /// Adds a row and rewrites the file. Throws std::runtime_error.
  void add(const Row& row);

 private:
  void save() const;

  std::filesystem::path path_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

}  // namespace h5feed::bench
