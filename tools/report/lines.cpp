// SPDX-License-Identifier: Apache-2.0
#include "tools/report/lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/byte_units.hpp"
#include "tools/monitor/record.hpp"
#include "tools/report/html.hpp"

namespace h5feed::cli {
namespace {

constexpr int kMostGpus = 64;
constexpr double kLatest = 1e11;  // seconds since 1970 that are still a time

std::optional<double> time_in(const Json& json) {
  const auto time = number_in(json, "time");
  return time && *time >= 0 && *time <= kLatest ? time : std::nullopt;
}

bool has_object(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_object();
}

// Returns the number of a GPU; unset if it can be none.
std::optional<int> gpu_in(const Json& json) {
  const auto gpu = number_in(json, "gpu");
  return gpu && *gpu >= 0 && *gpu < kMostGpus ? std::optional(static_cast<int>(*gpu)) : std::nullopt;
}

// Returns what a loader delivers, which tells the lines of a training and a validation loader apart; empty
// for lines that do not say it. Several loaders of the same samples, such as one for each epoch, are one.
std::string data_text(const Json& json) {
  constexpr std::size_t kLongestData = 60;
  const std::string data = text_in(json, "data");
  const auto samples = number_in(json, "dataset_samples");
  if (data.empty() || !samples) return {};
  return fmt::format(", {} ({} samples)", shortened(data, kLongestData), exact_number(*samples));
}

// Names the loader of a line that tells its process.
void name_loader(EpochFacts& epoch, const Json& json) {
  epoch.process = "process " + exact_number(number_in(json, "pid").value_or(0));
  epoch.loader =
      fmt::format("{}, loader {}", epoch.process, exact_number(number_in(json, "loader").value_or(0)));
}

// Joins neighbours of a long series, far finer than any chart shows.
void thin(TimeSeries& series) {
  constexpr std::size_t kMostReadings = 8192;
  while (series.size() > kMostReadings) {
    const std::size_t pairs = series.size() / 2;
    for (std::size_t i = 0; i < pairs; ++i) {
      const auto [time, value] = series[2 * i];
      const auto [next_time, next_value] = series[2 * i + 1];
      series[i] = {(time + next_time) / 2, (value + next_value) / 2};
    }
    const bool odd = series.size() % 2 == 1;
    if (odd) series[pairs] = series.back();
    series.resize(pairs + (odd ? 1 : 0));
  }
}

std::string counted(std::size_t lines) {
  return format_counted(static_cast<std::int64_t>(lines), "line", "lines");
}

}  // namespace

void LineReader::take(std::string_view line, bool whole) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  std::string too_deep;
  const Json json = json_from(line, &too_deep);
  if (json.is_discarded()) {
    if (!too_deep.empty()) {
      ++deep_lines_;
    } else if (whole) {
      ++broken_lines_;
    } else {
      cut_ = true;
    }
    return;
  }
  switch (const LineKind kind = kind_of(json); kind) {
    case LineKind::unknown:
      ++unknown_lines_;
      break;
    case LineKind::loader:
      ++loader_lines_;
      take_loader(json);
      break;
    default:
      ++monitor_lines_;
      take_monitor(kind, json);
  }
}

LineReader::LineKind LineReader::kind_of(const Json& json) {
  if (!json.is_object()) return LineKind::unknown;
  if (json.contains("summary") && json.contains("findings")) return LineKind::summary;
  if (number_in(json, "epoch") && number_in(json, "wait_share") && number_in(json, "seconds"))
    return LineKind::loader;
  if (!time_in(json)) return LineKind::unknown;
  if (gpu_in(json) && json.contains("busy")) return LineKind::gpu;
  if (has_object(json, "machine") || has_object(json, "process")) return LineKind::host;
  const auto named = [](const auto& member) { return member.key().find('/') != std::string::npos; };
  for (const auto& member : json.items()) {
    if (named(member)) return LineKind::scalars;
  }
  return LineKind::unknown;
}

void LineReader::take_monitor(LineKind kind, const Json& json) {
  if (kind == LineKind::summary) {
    monitor_.summary = json;
    return;
  }
  const double time = *time_in(json);
  if (monitor_lines_ == 1) monitor_.first_s = monitor_.last_s = time;
  monitor_.first_s = std::min(monitor_.first_s, time);
  monitor_.last_s = std::max(monitor_.last_s, time);
  const auto take_gpu = [&](int gpu, const Json& values, const std::string& prefix) {
    for (const auto& quantity : gpu_quantities()) {
      if (const auto value = number_in(values, prefix + quantity.key))
        add(fmt::format("gpu{}/{}", gpu, quantity.key), time, *value);
    }
  };
  if (kind == LineKind::gpu) {
    const int gpu = *gpu_in(json);
    monitor_.gpus[gpu] = text_in(json, "pci_id");
    take_gpu(gpu, json, "");
    return;
  }
  ++monitor_.readings;
  for (const auto& quantity : host_quantities()) {
    const std::string_view key = quantity.key;
    const auto slash = key.find('/');
    const auto group = json.find(std::string(key.substr(0, slash)));
    const auto value = kind == LineKind::scalars                   ? number_in(json, key)
                       : group != json.end() && group->is_object() ? number_in(*group, key.substr(slash + 1))
                                                                   : std::nullopt;
    if (value) add(quantity.key, time, *value);
  }
  if (kind != LineKind::scalars) return;
  for (int gpu = 0; gpu < kMostGpus; ++gpu) {
    const std::string prefix = fmt::format("gpu{}/", gpu);
    if (!number_in(json, prefix + "busy")) continue;
    monitor_.gpus.try_emplace(gpu);
    take_gpu(gpu, json, prefix);
  }
}

void LineReader::take_loader(const Json& json) {
  const auto number = [&](std::string_view key) { return std::max(0.0, number_in(json, key).value_or(0)); };
  const auto is = [&](const char* key) { return json.value(key, Json()) == true; };
  const bool published = number_in(json, "pid").has_value();  // by H5FEED_STATS_FILE
  EpochFacts epoch{.number = number("epoch"),
                   .finished = is("finished"),
                   .headroom = is("headroom"),
                   .samples = number("samples"),
                   .seconds = number("seconds"),
                   .samples_per_s = number("samples_per_s"),
                   .wait_share = number("wait_share"),
                   .num_workers = number_in(json, "num_workers"),
                   .usable_cpus = number_in(json, "usable_cpus"),
                   .bottleneck = text_in(json, "bottleneck")};
  if (published) {
    name_loader(epoch, json);
  } else {
    epoch.loader = "rank " + exact_number(number("rank")) + data_text(json);
  }
  auto& waits = epoch.waits.emplace();
  for (std::size_t i = 0; i < kEpochWaits.size(); ++i) waits[i] = number(kEpochWaits[i].key);
  if (const auto clauses = json.find("advice"); clauses != json.end() && clauses->is_array()) {
    for (const Json& clause : *clauses) {
      if (clause.is_string()) epoch.advice.push_back(clause.get<std::string>());
    }
  }
  // A later line of a running epoch replaces the earlier one.
  if (const auto known = running_.find(epoch.loader); known != running_.end()) {
    EpochFacts& before = epochs_[known->second];
    if (!before.finished && before.number == epoch.number && before.seconds <= epoch.seconds) {
      before = std::move(epoch);
      return;
    }
  }
  running_[epoch.loader] = epochs_.size();
  epochs_.push_back(std::move(epoch));
}

bool LineReader::finish(Input& input) {
  if (monitor_lines_ == 0 && loader_lines_ == 0) return false;
  input.kind = monitor_lines_ > 0 ? Input::Kind::monitor : Input::Kind::loader;
  add_notes(input);
  if (input.kind == Input::Kind::monitor) {
    finish_monitor(input);
  } else {
    input.epochs = std::move(epochs_);
  }
  return true;
}

void LineReader::add_notes(Input& input) const {
  if (cut_)
    input.notes.emplace_back(
        "Its last line is cut off: the run was killed, or still writes. That line is left out.");
  if (broken_lines_ > 0)
    input.notes.push_back(fmt::format("{} no JSON and left out.",
                                      counted(broken_lines_) + (broken_lines_ == 1 ? " is" : " are")));
  if (deep_lines_ > 0)
    input.notes.push_back(fmt::format("{} nested more than {} levels deep and left out.",
                                      counted(deep_lines_) + (deep_lines_ == 1 ? " is" : " are"),
                                      kMostJsonLevels));
  if (unknown_lines_ > 0)
    input.notes.push_back(fmt::format("{} of neither monitor nor a loader, and left out.",
                                      counted(unknown_lines_) + (unknown_lines_ == 1 ? " is" : " are")));
  if (input.kind == Input::Kind::monitor && loader_lines_ > 0)
    input.notes.push_back(
        fmt::format("{} of a loader between those of monitor {} left out; give each a file of its own.",
                    counted(loader_lines_), loader_lines_ == 1 ? "is" : "are"));
}

void LineReader::finish_monitor(Input& input) {
  for (auto& [name, series] : monitor_.series) {
    for (auto& [time, value] : series) time -= monitor_.first_s;
    std::ranges::stable_sort(series, {}, &std::pair<double, double>::first);
    thin(series);
  }
  if (monitor_.summary.is_null()) {
    input.notes.emplace_back(
        "It has no last line with a verdict: the run was killed or still goes on, or the file is one of "
        "--scalars.");
  } else if (const auto epochs = monitor_.summary.find("epochs");
             epochs != monitor_.summary.end() && epochs->is_array()) {
    for (const Json& json : *epochs) {
      const auto begin = number_in(json, "begin_s"), end = number_in(json, "end_s");
      const auto share = number_in(json, "wait_share"), samples = number_in(json, "samples");
      if (!begin || !end || !share || !samples || !(*end > *begin)) continue;
      EpochFacts epoch{.number = number_in(json, "epoch").value_or(0),
                       .finished = json.value("finished", Json()) == true,
                       .samples = *samples,
                       .seconds = *end - *begin,
                       .samples_per_s = *samples / (*end - *begin),
                       .wait_share = *share,
                       .bottleneck = text_in(json, "bottleneck")};
      name_loader(epoch, json);
      input.epochs.push_back(std::move(epoch));
    }
  }
  input.monitor = std::move(monitor_);
}

}  // namespace h5feed::cli
