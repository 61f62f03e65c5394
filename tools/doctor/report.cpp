// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/byte_units.hpp"
#include "store/filters/filters.hpp"
#include "tools/doctor/reading_faults.hpp"
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
  if (!examined.others.empty()) text += fmt::format(" (other samples: {})", examined.others);
  return text;
}

std::string stored_text(const ChunkReader& reader) {
  if (const auto parts = reader.parts(); !parts.empty()) {
    const std::string first = stored_text(*parts.front().reader);
    return parts.size() == 1
               ? first
               : fmt::format("in {} datasets, the first of them: {}", format_count(parts.size()), first);
  }
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

std::string verdict_of(const Checkup& checkup) {
  if (checkup.faults.empty()) return "nothing found: the file, its storage and these settings are sound";
  std::vector<std::string> counts;
  for (const Severity severity : {Severity::serious, Severity::minor}) {
    const auto count = std::ranges::count(checkup.faults, severity, &Fault::severity);
    if (count > 0) counts.push_back(fmt::format("{} {}", count, word_of(severity)));
  }
  return fmt::format("{} {}", fmt::join(counts, " and "),
                     checkup.faults.size() == 1 ? "finding" : "findings");
}

Json settings_json(const Examined& examined) {
  Json settings = to_json(examined.settings);
  for (const char* const key : {"runs", "warmup", "time_budget_s"}) settings.erase(key);
  settings["num_workers"] = workers_json(examined.num_workers);
  settings["shuffle"] = examined.options.shuffle.to_string();
  settings["cache_bytes"] = examined.options.cache_bytes;
  return settings;
}

bool is_mended_by(const std::vector<Fault>& faults, std::string_view beginning) {
  return std::ranges::any_of(faults, [&](const Fault& fault) {
    return std::ranges::any_of(fault.mend,
                               [&](const std::string& mend) { return mend.starts_with(beginning); });
  });
}

std::string next_steps(const Checkup& checkup) {
  const std::string file = shell_word(checkup.file);
  if (checkup.faults.empty()) {
    return fmt::format(
        "next: h5feed info {0} --write-config train.json   the options of dataset and loader, to train with\n"
        "      h5feed bench {0}                            how fast it is with other settings\n"
        "      h5feed doctor {0} -- COMMAND                watches a short run of your training\n",
        file);
  }
  std::string text;
  if (is_mended_by(checkup.faults, "h5feed repack")) {
    text += fmt::format("After repack: h5feed doctor NEW.h5. h5feed tune {} tries more chunks and filters.\n",
                        file);
  }
  if (is_mended_by(checkup.faults, "DataLoader(") || is_mended_by(checkup.faults, "Dataset.open(")) {
    text +=
        "Options are spelled as in Python and in files for --config; in C++ they are members of "
        "DatasetOptions and\n"
        "DataLoaderOptions with the same names, and \"auto\" is h5feed::kAuto.\n";
  }
  return text;
}

// Returns `text` in lines of at most about 110 columns, each but the first indented.
std::string wrapped(std::string_view text, std::size_t indent) {
  constexpr std::size_t kColumns = 110;
  std::string lines;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    const std::size_t width = display_width(word);
    if (column > indent && column + 1 + width > kColumns) {
      lines += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += width;
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return lines;
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
  Json data, samples, settings, supposed;
  if (checkup.examined) {
    const Examined& examined = *checkup.examined;
    data = examined.state().data.info().path;
    samples = examined.dataset.size();
    settings = settings_json(examined);
    supposed = examined.supposed;
  }
  Json faults = Json::array();
  for (const Fault& fault : checkup.faults) {
    faults.push_back({{"finding", fault.name},
                      {"severity", word_of(fault.severity)},
                      {"what", fault.what},
                      {"mend", fault.mend}});
  }
  return {{"file", checkup.file},
          {"machine", machine_json()},
          {"storage", {{"name", checkup.storage.name}, {"remote", checkup.storage.remote}}},
          {"data", std::move(data)},
          {"samples", std::move(samples)},
          {"settings", std::move(settings)},
          {"settings_supposed", std::move(supposed)},
          {"measured", checkup.speed ? checkup.speed->row : Json()},
          {"command", checkup.trial ? checkup.trial->to_json() : Json()},
          {"findings", std::move(faults)},
          {"verdict", verdict_of(checkup)}};
}

std::string checkup_text(const Checkup& checkup) {
  std::vector<std::pair<const char*, std::string>> facts = {
      {"machine", machine_text(checkup.limits)},
      {"file", fmt::format("{} on {}", printable(checkup.file), printable(checkup.storage.name))}};
  if (checkup.examined) {
    const Examined& examined = *checkup.examined;
    facts.emplace_back("samples", samples_text(examined));
    facts.emplace_back("stored", are_encoded_images(examined.state())
                                     ? "each image by itself, of variable length"
                                     : stored_text(*examined.state().data.reader));
    facts.emplace_back("settings", options_text(examined));
  }
  if (checkup.speed) {
    facts.emplace_back("measured", checkup.speed->text());
    if (std::string warning = checkup.speed->warning(); !warning.empty())
      facts.emplace_back("", std::move(warning));
  }
  if (checkup.trial) facts.emplace_back("command", checkup.trial->text());
  std::string text;
  for (const auto& [name, value] : facts) text += fmt::format("{:<10}{}\n", name, wrapped(value, 10));
  text += '\n' + verdict_of(checkup) + "\n\n";
  std::size_t number = 0;
  for (const Fault& fault : checkup.faults) {
    text += wrapped(fmt::format("{}. {} ({}): {}", ++number, fault.name, word_of(fault.severity), fault.what),
                    3) +
            '\n';
    for (std::size_t i = 0; i < fault.mend.size(); ++i)
      text += fmt::format("   {:<6}{}\n", i == 0 ? "mend:" : "or:", fault.mend[i]);
    text += '\n';
  }
  return text + next_steps(checkup);
}

}  // namespace h5feed::cli
