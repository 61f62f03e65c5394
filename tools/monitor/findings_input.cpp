// SPDX-License-Identifier: Apache-2.0
// Faults on the way of the data to the GPU: starvation, falls of use, storage, host memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "cuda/nvml/nvml.hpp"
#include "tools/monitor/findings.hpp"

namespace h5feed::cli {
namespace {

// From this use on, a GPU is busy enough.
constexpr double kWellUsed = 0.85;

// Share of `values` that reach `least`.
double share_from(const Values& values, double least) {
  if (values.empty()) return 0;
  return static_cast<double>(std::ranges::count_if(values, [&](double value) { return value >= least; })) /
         static_cast<double>(values.size());
}

// The cause that most epochs name; empty without loaders.
std::string usual_bottleneck(const Record& record) {
  std::map<std::string, double> seconds;
  for (const LoaderEpoch& epoch : record.epochs) seconds[epoch.bottleneck] += epoch.end_s - epoch.begin_s;
  seconds.erase("consumer");
  const auto most = std::ranges::max_element(seconds, {}, [](const auto& each) { return each.second; });
  return most != seconds.end() ? most->first : "";
}

std::vector<std::string> advice_for_input(const Record& record) {
  std::vector<std::string> advice;
  for (auto epoch = record.epochs.rbegin(); epoch != record.epochs.rend() && advice.empty(); ++epoch)
    advice = epoch->advice;
  if (advice.empty())
    advice = {"num_workers = auto; then loader.verdict() names the slow stage",
              "measure the file alone: h5feed bench FILE, and h5feed tune FILE for how it is stored"};
  return advice;
}

// Returns the cause of slow input that the machine's figures show without a loader's; empty if there is none.
std::string busy_input(const Judged& judged) {
  const double cpus = judged.record.cpus;
  const double cores = mean_of(judged.of(&Point::process_cores));
  if (cores >= 0.9 * cpus)
    return fmt::format("while its process kept {:.1f} of {:.0f} cores busy", cores, cpus);
  if (const double cpu = mean_of(judged.of(&Point::cpu_busy)); cpu >= 0.9)
    return fmt::format("while the processor was busy {:.0f} %", cpu * 100);
  if (const double stalled = mean_of(judged.of(&Point::io_stalled)); stalled >= 0.3)
    return fmt::format("while processes waited for storage {:.0f} % of the time", stalled * 100);
  return {};
}

// Means of a quantity before and after a point in time.
struct Change {
  std::string text;
  double clearness = 0;  // |t| of the difference
};

std::optional<Change> change_of(const Values& before, const Values& after, const char* text, Unit unit) {
  if (before.size() < 3 || after.size() < 3) return std::nullopt;
  const double a = mean_of(before), b = mean_of(after);
  const bool narrow = unit == Unit::celsius || unit == Unit::mhz;
  const double least = (narrow ? 0.12 : 0.25) * std::max(std::abs(a), std::abs(b));
  const double t = welch_t(before, after);
  if (std::abs(b - a) < std::max(least, unit == Unit::share ? 0.1 : 0.0) || std::abs(t) < 5)
    return std::nullopt;
  return Change{fmt::format("{} {} from {} to {}", text, b > a ? "rose" : "fell", value_text(a, unit),
                            value_text(b, unit)),
                std::abs(t)};
}

// Collects changes of the points around `split`. Quantities that follow from the use of the GPU do not count.
std::vector<Change> changes_at(const Judged& judged, std::size_t split) {
  const std::size_t width = std::clamp<std::size_t>(judged.points.size() / 5, 10, 120);
  const std::size_t begin = split - std::min(split, width);
  const std::size_t end = std::min(judged.points.size(), split + width);
  std::vector<Change> changes;
  const auto look = [&](const char* text, Unit unit, auto&& value_at) {
    Values before, after;
    for (std::size_t i = begin; i < end; ++i) {
      if (const std::optional<double> value = value_at(*judged.points[i]))
        (i < split ? before : after).push_back(*value);
    }
    if (auto change = change_of(before, after, text, unit)) changes.push_back(std::move(*change));
  };
  for (const auto& quantity : host_quantities()) {
    if (quantity.unit == Unit::samples_per_s) continue;
    look(quantity.text, quantity.unit, [&](const Point& point) { return point.*quantity.value; });
  }
  for (const auto& quantity : gpu_quantities()) {
    if (quantity.unit != Unit::celsius && quantity.unit != Unit::mhz && quantity.unit != Unit::bytes)
      continue;
    look(quantity.text, quantity.unit, [&](const Point& point) {
      return point.gpus.empty() ? std::nullopt : point.gpus.front().*quantity.value;
    });
  }
  std::ranges::stable_sort(changes, std::ranges::greater{}, &Change::clearness);
  return changes;
}

}  // namespace

std::optional<Finding> storage_at_limit(const Judged& judged) {
  const Values disk = judged.of(&Point::disk_busy), net = judged.of(&Point::net_busy);
  const double wait = mean_of(judged.of(&Point::loader_wait_read));
  // A busy disk does no harm to a run that does not wait for it.
  if (judged.has_gpus() ? mean_of(judged.busy) >= kWellUsed && wait < 0.1
                        : wait < 0.1 && judged.record.epochs.size() > 0)
    return std::nullopt;
  const double of_disk = share_from(disk, 0.9), of_net = share_from(net, 0.85);
  if (std::max(of_disk, of_net) < 0.3) return std::nullopt;
  const bool network = of_net > of_disk;
  const double rate =
      mean_of(judged.of(network ? &Point::net_received_bytes_per_s : &Point::disk_read_bytes_per_s));
  return Finding{
      .name = "storage_at_limit",
      .what = network ? fmt::format("the network was at its limit {:.0f} % of the time, receiving {}",
                                    of_net * 100, value_text(rate, Unit::bytes_per_s))
                      : fmt::format("disk {} was at its limit {:.0f} % of the time, reading {}",
                                    judged.record.disk.empty() ? "?" : judged.record.disk, of_disk * 100,
                                    value_text(rate, Unit::bytes_per_s)),
      .advice = {network ? "stage_dir copies the files to a local disk once"
                         : "move the file to a faster disk; stage_dir copies it once",
                 "a larger cache_bytes, or shuffle = \"chunk:K\", so that each chunk is read once an epoch",
                 "store fewer bytes: h5feed tune FILE"},
      .from_s = judged.begin_s(),
      .to_s = judged.end_s()};
}

std::optional<Finding> host_memory_rises(const Judged& judged) {
  const bool of_process = !judged.of(&Point::process_rss_bytes).empty();
  const auto member = of_process ? &Point::process_rss_bytes : &Point::memory_used_bytes;
  Values memory, use;
  for (std::size_t i = 0; i < judged.busy.size(); ++i) {
    if (!(judged.points[i]->*member)) continue;
    memory.push_back(*(judged.points[i]->*member));
    use.push_back(judged.busy[i]);
  }
  if (memory.size() < kFewestPoints) return std::nullopt;
  const std::size_t fifth = memory.size() / 5;
  const auto first = [&](const Values& values) { return mean_of(std::span(values).first(fifth)); };
  const auto last = [&](const Values& values) { return mean_of(std::span(values).last(fifth)); };
  const double growth = last(memory) - first(memory);
  if (growth < 0.2 * first(memory) || growth < 0.01 * judged.record.memory_bytes ||
      last(use) > 0.8 * first(use) || correlation(memory, use) > -0.5) {
    return std::nullopt;
  }
  return Finding{
      .name = "host_memory_rises",
      .what = fmt::format("{} rose from {} to {} while use of the GPUs fell from {:.0f} % to {:.0f} %",
                          of_process ? "memory of the process" : "memory of the machine in use",
                          value_text(first(memory), Unit::bytes), value_text(last(memory), Unit::bytes),
                          first(use) * 100, last(use) * 100),
      .advice = {"memory taken from the page cache makes the next epoch read from the disk again: find what "
                 "grows (lists of losses or outputs, Python objects in worker processes)",
                 "bound the loader: memory_budget_bytes, cache_bytes"},
      .from_s = judged.begin_s(),
      .to_s = judged.end_s()};
}

std::optional<Finding> starved_gpu(const Judged& judged) {
  const Values waits = judged.of(&Point::loader_wait);
  const double wait = mean_of(waits);
  const double use = mean_of(judged.busy);
  const bool measured = waits.size() >= kFewestPoints;
  std::string what;
  if (measured) {
    if (wait < 0.15 || (judged.has_gpus() && use >= kWellUsed)) return std::nullopt;
    const std::string cause = usual_bottleneck(judged.record);
    what = fmt::format("the training waited for batches {:.0f} % of the time{}", wait * 100,
                       cause.empty() ? "" : fmt::format(" (bottleneck: {})", cause));
    if (judged.has_gpus()) what = fmt::format("the GPUs were busy {:.0f} %: {}", use * 100, what);
  } else {
    const std::string busy = judged.has_gpus() && use < 0.7 ? busy_input(judged) : "";
    if (busy.empty()) return std::nullopt;
    what = fmt::format("the GPUs were busy {:.0f} % {}", use * 100, busy);
  }
  return Finding{.name = judged.has_gpus() ? "starved_gpu" : "starved_training",
                 .what = std::move(what),
                 .advice = advice_for_input(judged.record),
                 .from_s = judged.begin_s(),
                 .to_s = judged.end_s()};
}

std::optional<Finding> fall_of_use(const Judged& judged) {
  const Values& busy = judged.busy;
  const std::size_t split = clearest_fall(busy, std::max<std::size_t>(kFewestPoints, busy.size() * 15 / 100));
  if (split == 0) return std::nullopt;
  const auto place = busy.begin() + static_cast<std::ptrdiff_t>(split);
  const Values before(busy.begin(), place), after(place, busy.end());
  const double high = mean_of(before), low = mean_of(after);
  // Medians keep a few long pauses from looking like a lower level.
  if (high - low < 0.15 || low > 0.8 * high || welch_t(before, after) > -6 ||
      quantile(before, 0.5) - quantile(after, 0.5) < 0.1)
    return std::nullopt;
  std::vector<std::string> with;
  for (const Change& change : changes_at(judged, split)) {
    if (with.size() < 4) with.push_back(change.text);
  }
  const double from = judged.points[split]->time_s;
  Finding finding{
      .name = "fall_of_use",
      .what = fmt::format("use of the GPUs fell from {:.0f} % to {:.0f} % after {}; {}", high * 100,
                          low * 100, time_text(from),
                          with.empty() ? "nothing else that is watched changed with it"
                                       : fmt::format("with it {}", fmt::join(with, "; "))),
      .advice = {with.empty() ? "look at the training itself: shapes, learning schedule, logging, other "
                                "processes on the GPU"
                              : "look at what changed at that time, first of all at the first in this list",
                 "loader.verdict() before and after tells whether the loader became slower"},
      .from_s = from,
      .to_s = judged.end_s()};
  return finding;
}

}  // namespace h5feed::cli
