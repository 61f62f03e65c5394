// SPDX-License-Identifier: Apache-2.0
#include "tools/monitor/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace h5feed::cli {
namespace {

// Below this use, a GPU does nothing worth the name.
constexpr double kAtRest = 0.05;

std::optional<double> mean_use(const Point& point) {
  double sum = 0;
  std::size_t known = 0;
  for (const GpuPoint& gpu : point.gpus) {
    if (gpu.busy) sum += *gpu.busy, ++known;
  }
  return known > 0 ? std::optional(sum / static_cast<double>(known)) : std::nullopt;
}

// Faults that follow from others which began at the same time, or that say the same in other words.
void drop_effects(std::vector<Finding>& findings, double slack_s) {
  const auto find = [&](const char* name) {
    return std::ranges::find(findings, std::string(name), &Finding::name);
  };
  const auto drop_if = [&](const char* effect, const char* cause, bool at_same_time) {
    const auto of = find(effect), by = find(cause);
    if (of == findings.end() || by == findings.end()) return;
    if (!at_same_time || std::abs(of->from_s - by->from_s) <= slack_s) findings.erase(of);
  };
  drop_if("fall_of_use", "silent_gpu", true);
  drop_if("fall_of_use", "host_memory_rises", false);
  drop_if("periodic_idling", "validation_gaps", false);
}

}  // namespace

std::string time_text(double seconds) {
  if (seconds < 180) return fmt::format("{:.0f} s", seconds);
  if (seconds < 3 * 3600) return fmt::format("{:.1f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

Judged::Judged(const Record& of) : record(of) {
  Values all;
  for (const Point& point : record.points) {
    if (const std::optional<double> use = mean_use(point)) {
      points.push_back(&point);
      all.push_back(*use);
    }
  }
  if (points.empty()) {
    for (const Point& point : record.points) points.push_back(&point);
    return;
  }
  mean_busy = mean_of(all);
  typical = quantile(all, 0.75);
  // A program that starts or ends does not need the GPU.
  std::size_t first = 0, last = all.size();
  if (typical > kAtRest) {
    while (first < last && all[first] < 0.2 * typical) ++first;
    while (last > first && all[last - 1] < 0.2 * typical) --last;
  }
  const auto at = [](std::size_t i) { return static_cast<std::ptrdiff_t>(i); };
  busy.assign(all.begin() + at(first), all.begin() + at(last));
  points = {points.begin() + at(first), points.begin() + at(last)};
}

Values Judged::of(std::optional<double> Point::*value) const {
  Values known;
  for (const Point* const point : points) {
    if (point->*value) known.push_back(*(point->*value));
  }
  return known;
}

bool Judged::all_idle(std::size_t i) const {
  return std::ranges::all_of(points[i]->gpus,
                             [&](const GpuPoint& gpu) { return !gpu.busy || *gpu.busy < 0.3 * typical; });
}

std::vector<LoaderEpoch> Judged::training_epochs() const {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<LoaderEpoch>> loaders;
  for (const LoaderEpoch& epoch : record.epochs) loaders[{epoch.pid, epoch.loader}].push_back(epoch);
  const auto seconds = [](const auto& loader) {
    double sum = 0;
    for (const LoaderEpoch& epoch : loader.second) sum += epoch.end_s - epoch.begin_s;
    return sum;
  };
  const auto longest = std::ranges::max_element(loaders, {}, seconds);
  return longest != loaders.end() ? longest->second : std::vector<LoaderEpoch>();
}

Diagnosis diagnose(const Record& record) {
  const Judged judged(record);
  Diagnosis diagnosis;
  if (judged.points.size() < kFewestPoints) {
    diagnosis.judged = false;
    diagnosis.verdict = fmt::format(
        "too short to judge: {} readings while there was work, of {} needed; "
        "watch for longer, or with a smaller --interval",
        judged.points.size(), kFewestPoints);
    return diagnosis;
  }
  for (const auto finder : {throttling, silent_gpu, device_memory_rises, host_memory_rises, storage_at_limit,
                            validation_gaps, periodic_idling, starved_gpu, fall_of_use, low_average}) {
    if (std::optional<Finding> found = finder(judged)) diagnosis.findings.push_back(std::move(*found));
  }
  drop_effects(diagnosis.findings, 5 * record.interval_s);
  const std::string use =
      judged.has_gpus() ? fmt::format("; the GPUs were busy {:.0f} % of the time", mean_of(judged.busy) * 100)
                        : "";
  if (diagnosis.findings.empty()) {
    diagnosis.verdict = "nothing found" + use;
  } else {
    diagnosis.verdict = diagnosis.findings.front().what;
    if (const std::size_t more = diagnosis.findings.size() - 1; more > 0)
      diagnosis.verdict += fmt::format(" (and {} more)", more);
  }
  return diagnosis;
}

Json Diagnosis::to_json() const {
  Json found = Json::array();
  for (const Finding& finding : findings) {
    found.push_back({{"finding", finding.name},
                     {"what", finding.what},
                     {"try", finding.advice},
                     {"from_s", finding.from_s},
                     {"to_s", finding.to_s},
                     {"gpu", finding.gpu ? Json(*finding.gpu) : Json()}});
  }
  return {{"verdict", verdict}, {"findings", found}};
}

std::string Diagnosis::to_text() const {
  if (findings.empty()) return fmt::format("verdict: {}\n", verdict);
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{}: {} (from {} to {})\n", finding.name, finding.what, time_text(finding.from_s),
                        time_text(finding.to_s));
    for (const std::string& clause : finding.advice) text += fmt::format("  try: {}\n", clause);
  }
  return text;
}

}  // namespace h5feed::cli
