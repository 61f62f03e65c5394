// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tools/report/facts.hpp"
#include "tools/report/html.hpp"

namespace h5feed::cli {
namespace {

constexpr std::size_t kMostSettings = 150;
constexpr std::size_t kLongestValue = 160;

using Settings = std::vector<std::pair<std::string, std::string>>;

std::string setting_text(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>()
                                             : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return shortened(text, kLongestValue);
}

Settings settings_of_bench(const Json& result) {
  Settings settings;
  for (const char* const key : {"file", "version", "commit"}) {
    if (result.contains(key)) settings.emplace_back(key, setting_text(result[key]));
  }
  for (const char* const group : {"machine", "settings", "peer"}) {
    const Json members = result.value(group, Json::object());
    for (const auto& [key, value] : members.items()) {
      // Free memory always differs.
      if (key == "available_bytes" || value.is_null()) continue;
      settings.emplace_back(fmt::format("{}.{}", group, shortened(key, kLongestValue)), setting_text(value));
    }
  }
  return settings;
}

Settings settings_of_loader(const std::vector<EpochFacts>& epochs) {
  std::set<std::string> loaders, workers, cpus;
  std::size_t headroom = 0;
  for (const EpochFacts& epoch : epochs) {
    loaders.insert(epoch.loader);
    if (epoch.num_workers) workers.insert(exact_number(*epoch.num_workers));
    if (epoch.usable_cpus) cpus.insert(exact_number(*epoch.usable_cpus));
    headroom += epoch.headroom ? 1 : 0;
  }
  Settings settings = {{"loaders", std::to_string(loaders.size())},
                       {"epochs", std::to_string(epochs.size())}};
  if (!workers.empty())
    settings.emplace_back("workers in use",
                          shortened(fmt::format("{}", fmt::join(workers, ", ")), kLongestValue));
  if (!cpus.empty())
    settings.emplace_back("usable CPUs", shortened(fmt::format("{}", fmt::join(cpus, ", ")), kLongestValue));
  if (headroom > 0)
    settings.emplace_back("epochs with headroom (one batch repeated)", std::to_string(headroom));
  return settings;
}

Settings settings_of_monitor(const Input& input) {
  const MonitorFacts& record = input.monitor;
  Settings settings;
  std::vector<std::string> gpus;
  for (const auto& [index, address] : record.gpus)
    gpus.push_back(address.empty() ? std::to_string(index) : fmt::format("{} ({})", index, address));
  settings.emplace_back(
      "GPUs watched",
      gpus.empty() ? "none" : shortened(fmt::format("{}", fmt::join(gpus, ", ")), kLongestValue));
  settings.emplace_back("length", shown_number(record.seconds()) + " s");
  settings.emplace_back("readings", std::to_string(record.readings));
  if (record.summary.is_object()) {
    const Json process = record.summary.value("process", Json());
    if (const auto code = number_in(process, "exit_code"))
      settings.emplace_back("exit code", exact_number(*code));
    if (const auto cores = number_in(process, "cpu_cores"))
      settings.emplace_back("busy cores, mean", shown_number(*cores));
  }
  return settings;
}

Settings settings_of(const Input& input) {
  Settings settings = input.kind == Input::Kind::bench     ? settings_of_bench(input.bench)
                      : input.kind == Input::Kind::monitor ? settings_of_monitor(input)
                                                           : settings_of_loader(input.epochs);
  settings.resize(std::min(settings.size(), kMostSettings));
  return settings;
}

}  // namespace

bool SettingRow::differs(const std::vector<Input>& inputs) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i + 1; j < values.size(); ++j) {
      const bool comparable = inputs[i].kind == inputs[j].kind || (values[i] && values[j]);
      if (comparable && values[i] != values[j]) return true;
    }
  }
  return false;
}

std::vector<SettingRow> settings_of(const std::vector<Input>& inputs) {
  std::vector<SettingRow> rows;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (auto& [name, value] : settings_of(inputs[i])) {
      auto row = std::ranges::find(rows, name, &SettingRow::name);
      if (row == rows.end()) {
        rows.push_back({.name = name, .values = std::vector<std::optional<std::string>>(inputs.size())});
        row = rows.end() - 1;
      }
      row->values[i] = std::move(value);
    }
  }
  return rows;
}

}  // namespace h5feed::cli
