// What the GPU benchmarks measured, as rows of JSON.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace h5feed::bench {

/// Repetitions of a measurement and of the ceiling it is held against, taken in turn.
struct Pairs {
  std::vector<double> values;
  std::vector<double> ceilings;
};

/// Calls both `repetitions` times, in an order that changes each time: what warms up or gets hot does not
/// favour one of them. One pair before, which is not counted, loads what is loaded at first use.
Pairs alternate(int repetitions, const std::function<double()>& value,
                const std::function<double()>& ceiling);

/// One line of the result. `ratio` is value / ceiling, medians of both.
struct Row {
  std::string name;
  std::string unit;
  Pairs pairs;
  std::string note;     ///< what value and ceiling are
  std::string not_run;  ///< why there is no value; empty where there is one

  double value() const;
  double ceiling() const;
  double ratio() const;
};

/// {"name","value","unit","ceiling","ratio","repetitions","ceiling_repetitions","note"}; without a value null
/// in place of the figures, and "not_run".
nlohmann::ordered_json to_json(const Row& row);

/// {"rows":[…]}, replaced as a whole with each row that is added: a run that is ended keeps what it has.
class ResultFile {
 public:
  /// Empty `path`: nothing is written. Throws std::runtime_error where `path` cannot be written.
  explicit ResultFile(std::filesystem::path path);
  void add(const Row& row);

 private:
  void save() const;

  std::filesystem::path path_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

}  // namespace h5feed::bench
