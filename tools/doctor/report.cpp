// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/byte_units.hpp"
#include "base/files/storage_kind.hpp"
#include "store/filters/filters.hpp"
#include "tools/program/machine.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
namespace {

const char* word_of(Severity severity) { return severity == Severity::serious ? "serious" : "minor"; }

std::string options_text(const Examined& examined) {
  const ResolvedOptions& options = examined.options;
  return fmt::format(
      "batch_size={}, shuffle=\"{}\", num_workers={}, cache_bytes={}{}",
      options.batched ? std::to_string(options.batch_size) : "None", options.shuffle.to_string(),
      examined.num_workers == kAuto ? "\"auto\"" : std::to_string(examined.num_workers),
      format_bytes(options.cache_bytes), examined.supposed ? " (supposed: none were given)" : "");
}

std::string samples_text(const Examined& examined) {
  const DatasetState& dataset = examined.state();
  const DatasetInfo& info = dataset.data.info();
  std::string text = fmt::format("{}: {} samples of {} {}", printable(short_path(info.path)),
                                 format_count(static_cast<std::uint64_t>(examined.dataset.size())),
                                 fmt::join(dataset.sample_shape, "×"), name_of(info.dtype));
  if (dataset.target) text += ", with " + printable(short_path(dataset.target->info().path));
  if (!examined.others.empty()) text += fmt::format(" (the most samples; others: {})", examined.others);
  return text;
}

std::string stored_text(const DatasetState& dataset) {
  const ChunkReader& reader = *dataset.data.reader;
  const DatasetInfo& info = reader.info();
  return fmt::format("{}, {}, {} for {} of values",
                     info.chunk_shape.empty() ? std::string(name_of(info.layout))
                                              : fmt::format("{} {} of {}", format_count(reader.num_chunks()),
                                                            reader.num_chunks() == 1 ? "chunk" : "chunks",
                                                            format_shape(info.chunk_shape)),
                     info.filters.empty() ? "no filter" : format_filters(info.filters),
                     format_bytes(info.stored_bytes), format_bytes(info.total_bytes()));
}

std::string machine_text(const SystemLimits& limits) {
  return fmt::format("{} of {} {}, {} of memory free{}", limits.cpus, limits.host_cpus,
                     limits.host_cpus == 1 ? "core" : "cores", format_bytes(limits.available_bytes),
                     limits.memory_bound_by == "host" ? "" : " (" + limits.memory_bound_by + ")");
}

std::string count_text(const std::vector<Fault>& faults, Severity severity) {
  const auto count = std::ranges::count(faults, severity, &Fault::severity);
  return fmt::format("{} {} {}", count, word_of(severity), count == 1 ? "finding" : "findings");
}

std::string verdict_of(const Checkup& checkup) {
  if (checkup.faults.empty()) return "nothing found: the file, its storage and these settings are sound";
  return fmt::format("{}, {}", count_text(checkup.faults, Severity::serious),
                     count_text(checkup.faults, Severity::minor));
}

std::string next_steps(const Checkup& checkup) {
  const std::string file = printable(checkup.examined.settings.file());
  if (!checkup.faults.empty()) {
    return fmt::format(
        "Options are named as in Python and in the files of --config; in C++: options.cache_bytes = ..., "
        "and\n"
        "options.num_workers = h5feed::kAuto for \"auto\". After a repack: h5feed doctor NEW.h5\n");
  }
  return fmt::format(
      "next: h5feed info {0} --write-config train.json   the options of dataset and loader, to train with\n"
      "      h5feed bench {0}                            how fast it is with other settings\n"
      "      h5feed doctor {0} -- COMMAND                watches a short run of your training\n",
      file);
}

}  // namespace

bool Checkup::serious() const {
  return std::ranges::any_of(faults, [](const Fault& fault) { return fault.severity == Severity::serious; });
}

void sort_faults(std::vector<Fault>& faults) { std::ranges::stable_sort(faults, {}, &Fault::severity); }

Table checkup_table(const Checkup& checkup) {
  Table table({{"severity"}, {"finding"}, {"what"}, {"mend"}});
  for (const Fault& fault : checkup.faults) {
    table.add_row(
        {word_of(fault.severity), fault.name, fault.what, fmt::format("{}", fmt::join(fault.mend, "; "))});
  }
  return table;
}

Json checkup_json(const Checkup& checkup) {
  const Examined& examined = checkup.examined;
  const DatasetInfo& info = examined.state().data.info();
  const StorageKind storage = storage_kind(examined.settings.file());
  Json settings = to_json(examined.settings);
  for (const char* const key : {"runs", "warmup", "time_budget_s"}) settings.erase(key);
  settings["num_workers"] = workers_json(examined.num_workers);
  settings["shuffle"] = examined.options.shuffle.to_string();
  settings["cache_bytes"] = examined.options.cache_bytes;
  Json faults = Json::array();
  for (const Fault& fault : checkup.faults) {
    faults.push_back({{"finding", fault.name},
                      {"severity", word_of(fault.severity)},
                      {"what", fault.what},
                      {"mend", fault.mend}});
  }
  return {{"file", examined.settings.file()},
          {"machine", machine_json()},
          {"storage", {{"name", storage.name}, {"remote", storage.remote}}},
          {"data", info.path},
          {"samples", examined.dataset.size()},
          {"settings", std::move(settings)},
          {"settings_supposed", examined.supposed},
          {"measured", checkup.speed ? checkup.speed->row : Json()},
          {"command", checkup.trial ? checkup.trial->to_json() : Json()},
          {"findings", std::move(faults)},
          {"verdict", verdict_of(checkup)}};
}

std::string checkup_text(const Checkup& checkup) {
  const Examined& examined = checkup.examined;
  std::vector<std::pair<const char*, std::string>> facts = {
      {"machine", machine_text(examined.limits)},
      {"file", fmt::format("{} on {}", printable(examined.settings.file()),
                           printable(storage_kind(examined.settings.file()).name))},
      {"samples", samples_text(examined)},
      {"stored", stored_text(examined.state())},
      {"settings", options_text(examined)}};
  if (checkup.speed) facts.emplace_back("measured", checkup.speed->text());
  if (checkup.trial) facts.emplace_back("command", checkup.trial->text());
  std::string text;
  for (const auto& [name, value] : facts) text += fmt::format("{:<10}{}\n", name, value);
  text += '\n' + verdict_of(checkup) + "\n\n";
  std::size_t number = 0;
  for (const Fault& fault : checkup.faults) {
    text += fmt::format("{}. {} ({}): {}\n", ++number, fault.name, word_of(fault.severity), fault.what);
    for (std::size_t i = 0; i < fault.mend.size(); ++i)
      text += fmt::format("   {:<6}{}\n", i == 0 ? "mend:" : "or:", fault.mend[i]);
    text += '\n';
  }
  return text + next_steps(checkup);
}

}  // namespace h5feed::cli
