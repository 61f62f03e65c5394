// SPDX-License-Identifier: Apache-2.0
#include "gpu/rows.hpp"

#include <fstream>
#include <stdexcept>
#include <utility>

#include "tools/measure/statistics.hpp"

namespace h5feed::bench {

Pairs alternate(int repetitions, const std::function<double()>& value,
                const std::function<double()>& ceiling) {
  Pairs pairs;
  for (int i = -1; i < repetitions; ++i) {
    const bool value_first = i % 2 == 0;
    const double first = value_first ? value() : ceiling();
    const double second = value_first ? ceiling() : value();
    if (i < 0) continue;
    pairs.values.push_back(value_first ? first : second);
    pairs.ceilings.push_back(value_first ? second : first);
  }
  return pairs;
}

double Row::value() const { return cli::median(pairs.values); }
double Row::ceiling() const { return cli::median(pairs.ceilings); }
double Row::ratio() const { return ceiling() == 0 ? 0 : value() / ceiling(); }

nlohmann::ordered_json to_json(const Row& row) {
  if (!row.not_run.empty()) {
    return {{"name", row.name},      {"value", nullptr}, {"unit", row.unit},
            {"ceiling", nullptr},    {"ratio", nullptr}, {"repetitions", nlohmann::ordered_json::array()},
            {"not_run", row.not_run}};
  }
  return {{"name", row.name},
          {"value", row.value()},
          {"unit", row.unit},
          {"ceiling", row.ceiling()},
          {"ratio", row.ratio()},
          {"repetitions", row.pairs.values},
          {"ceiling_repetitions", row.pairs.ceilings},
          {"note", row.note}};
}

ResultFile::ResultFile(std::filesystem::path path) : path_(std::move(path)) { save(); }

void ResultFile::add(const Row& row) {
  rows_.push_back(to_json(row));
  save();
}

void ResultFile::save() const {
  if (path_.empty()) return;
  const std::filesystem::path temporary = path_.string() + ".tmp";
  {
    std::ofstream out(temporary, std::ios::trunc);
    out << nlohmann::ordered_json{{"rows", rows_}}.dump(1) << '\n';
    if (!out.flush())
      throw std::runtime_error(temporary.string() + ": cannot be written; choose another place");
  }
  std::filesystem::rename(temporary, path_);
}

}  // namespace h5feed::bench
