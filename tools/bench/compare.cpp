// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <vector>

#include "h5feed/error.hpp"
#include "tools/bench/report.hpp"
#include "tools/measure/ratio_test.hpp"
#include "tools/measure/statistics.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
namespace {

// Smaller differences between two runs come from the drift of a machine as often as from a change.
constexpr double kUsualDrift = 0.1;
// A difference of the load that changes rates.
constexpr double kLoadMatters = 0.1;

bool measure_the_same(const Json& row, const Json& other) {
  const auto equal = [&](const char* key) { return row.value(key, Json()) == other.value(key, Json()); };
  if (!equal("num_workers") || !equal("page_cache") || !equal("swept")) return false;
  // A batch size that is swept or not given is compared as the others are.
  return equal("batch_size");
}

// Returns whether JSON, perhaps of another program, has what is compared.
bool is_result(const Json& json) {
  const auto rate = [](const Json& value) { return value.is_number() && value.get<double>() > 0; };
  const auto is_row = [&](const Json& row) {
    const Json repetitions = row.is_object() ? row.value("repetitions", Json()) : Json();
    return repetitions.is_array() && std::ranges::all_of(repetitions, rate) &&
           rate(row.value("samples_per_s", Json())) && row.contains("num_workers");
  };
  if (!json.is_object() || !json.contains("rows") || !json["rows"].is_array()) return false;
  for (const char* const key : {"machine", "settings"}) {
    if (json.contains(key) && !json[key].is_object()) return false;
  }
  return std::ranges::all_of(json["rows"], is_row);
}

// Returns whether two sizes that a loader derives from the free memory are about equal.
bool about_equal(const Json& before, const Json& after) {
  if (!before.is_number() || !after.is_number()) return false;
  return std::abs(after.get<double>() / before.get<double>() - 1) < kUsualDrift;
}

double mean_elsewhere(const Json& result) {
  std::vector<double> shares;
  for (const Json& row : result.at("rows")) {
    if (const Json share = row.value("busy_elsewhere", Json()); share.is_number())
      shares.push_back(share.get<double>());
  }
  return median(std::move(shares));
}

void note_change(Json& changes, const std::string& what, const Json& before, const Json& after) {
  if (before != after) changes.push_back({{"what", what}, {"earlier", before}, {"now", after}});
}

// Compares the members of one object of both results.
void note_changes(Json& changes, const std::string& object, const Json& earlier, const Json& now) {
  const Json none = Json::object();
  const Json before = earlier.value(object, none), after = now.value(object, none);
  for (const auto& [key, value] : after.items()) {
    // Free memory and load always differ; the rows show whether it mattered.
    if (key == "available_bytes" || key == "load_average") continue;
    if (key == "memory_budget_bytes" && about_equal(before.value(key, Json()), value)) continue;
    note_change(changes, object + "." + key, before.value(key, Json()), value);
  }
  for (const auto& [key, value] : before.items()) {
    if (!after.contains(key)) note_change(changes, object + "." + key, value, nullptr);
  }
}

}  // namespace

Json read_result(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string name = printable(file);
  if (!in)
    throw FileError(
        fmt::format("--compare {}: cannot be read; bench --export-json writes such a file", name));
  std::string too_deep;
  const Json json = json_from(text, &too_deep);
  if (!is_result(json)) {
    throw OptionError(fmt::format("--compare {}: {}; give a file of bench --export-json", name,
                                  too_deep.empty() ? "not a result of bench" : too_deep));
  }
  return json;
}

Json compare_results(const Json& earlier, const Json& now) {
  Json rows = Json::array(), changes = Json::array();
  for (const Json& row : now.at("rows")) {
    for (const Json& before : earlier.at("rows")) {
      if (!measure_the_same(before, row)) continue;
      const RatioEstimate found = unpaired_ratio(before.at("repetitions").get<std::vector<double>>(),
                                                 row.at("repetitions").get<std::vector<double>>());
      rows.push_back({{"row", row_name(row)},
                      {"earlier_samples_per_s", before.at("samples_per_s")},
                      {"samples_per_s", row.at("samples_per_s")},
                      {"ratio", found.ratio},
                      {"ratio_low", found.low},
                      {"ratio_high", std::isfinite(found.high) ? Json(found.high) : Json()}});
      break;
    }
  }
  for (const char* key : {"file", "version", "commit"})
    note_change(changes, key, earlier.value(key, Json()), now.value(key, Json()));
  note_changes(changes, "machine", earlier, now);
  note_changes(changes, "settings", earlier, now);
  const double before = mean_elsewhere(earlier), after = mean_elsewhere(now);
  if (std::abs(after - before) > kLoadMatters)
    note_change(changes, "share of the machine's CPUs used by other processes", before, after);
  return {{"rows", rows}, {"changes", changes}};
}

std::string comparison_text(const Json& comparison, const std::string& file) {
  std::string text;
  bool small = false;
  for (const Json& row : comparison.at("rows")) {
    const auto ratio = row.at("ratio").get<double>();
    text += fmt::format("{}: {} against {}", printable(row.at("row").get<std::string>()),
                        percent_change(ratio), printable(file));
    if (row.at("ratio_high").is_null()) {
      text += " (too few repetitions for an interval)\n";
    } else {
      const auto low = row.at("ratio_low").get<double>(), high = row.at("ratio_high").get<double>();
      text += fmt::format(" (95 % interval {} to {}{})\n", percent_change(low), percent_change(high),
                          low <= 1 && high >= 1 ? ": no difference shown" : "");
    }
    small = small || std::abs(ratio - 1) < kUsualDrift;
  }
  if (comparison.at("rows").empty())
    text += fmt::format("no row of {} has the workers and settings of a row here\n", printable(file));
  for (const Json& change : comparison.at("changes")) {
    text += fmt::format("changed since: {}: {} to {}\n", printable(change.at("what").get<std::string>()),
                        printable(change.at("earlier").dump()), printable(change.at("now").dump()));
  }
  if (small)
    text +=
        "the intervals leave out the drift between two runs; --alternate decides differences below 10 %\n";
  return text;
}

}  // namespace h5feed::cli
