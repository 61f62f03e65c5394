// SPDX-License-Identifier: Apache-2.0
// Faults in which all GPUs are idle from time to time, or on average.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/monitor/findings.hpp"

namespace h5feed::cli {
namespace {

// Pauses that cost less of a run than this are not worth a word.
constexpr double kCostly = 0.03;

}  // namespace

std::optional<Finding> validation_gaps(const Judged& judged) {
  const std::vector<LoaderEpoch> epochs = judged.training_epochs();
  if (!judged.has_gpus() || epochs.size() < 3) return std::nullopt;
  std::size_t idle = 0, gaps = 0;
  double longest_s = 0;
  for (std::size_t i = 1; i < epochs.size(); ++i) {
    if (!epochs[i - 1].finished) continue;
    std::size_t here = 0;
    for (std::size_t k = 0; k < judged.points.size(); ++k) {
      const double time = judged.points[k]->time_s;
      const bool between = time > epochs[i - 1].end_s && time <= epochs[i].begin_s + judged.record.interval_s;
      if (between && judged.all_idle(k)) ++here;
    }
    idle += here;
    if (here > 0) ++gaps;
    longest_s = std::max(longest_s, static_cast<double>(here) * judged.record.interval_s);
  }
  const double share = static_cast<double>(idle) / static_cast<double>(judged.points.size());
  if (gaps < 2 || share < kCostly) return std::nullopt;
  return Finding{
      .name = "validation_gaps",
      .what = fmt::format("between epochs the GPUs were idle, up to {} each time, {:.0f} % of the run",
                          time_text(longest_s), share * 100),
      .advice = {"fill the validation loader during the last training batches: val_loader.warm_up()",
                 "give the validation loader num_workers = auto and the GPU, too",
                 "save checkpoints and metrics on another thread"},
      .from_s = epochs.front().end_s,
      .to_s = epochs.back().begin_s};
}

std::optional<Finding> periodic_idling(const Judged& judged) {
  constexpr std::size_t kRepeats = 4;
  if (!judged.has_gpus() || judged.typical < 0.2) return std::nullopt;
  std::vector<Span> pauses =
      stretches_where(judged.points.size(), [&](std::size_t i) { return judged.all_idle(i); });
  // Single short pauses at random do not belong to a period of longer ones.
  Values lengths;
  for (const Span& pause : pauses) lengths.push_back(static_cast<double>(pause.size()));
  const double usual = quantile(lengths, 0.75);
  std::erase_if(pauses, [&](const Span& pause) { return static_cast<double>(pause.size()) <= 0.5 * usual; });
  if (pauses.size() < kRepeats) return std::nullopt;
  Values periods;
  double idle_s = 0;
  for (std::size_t i = 0; i < pauses.size(); ++i) {
    idle_s += static_cast<double>(pauses[i].size()) * judged.record.interval_s;
    if (i > 0)
      periods.push_back(judged.points[pauses[i].begin]->time_s - judged.points[pauses[i - 1].begin]->time_s);
  }
  const double period = quantile(periods, 0.5);
  const double allowed = std::max(0.15 * period, 1.5 * judged.record.interval_s);
  const auto regular = static_cast<double>(
      std::ranges::count_if(periods, [&](double each) { return std::abs(each - period) <= allowed; }));
  const double share = idle_s / (static_cast<double>(judged.points.size()) * judged.record.interval_s);
  // Random pauses of a point or two now and then also look regular if `allowed` is as long as their period.
  if (regular < 0.8 * static_cast<double>(periods.size()) || share < kCostly || period < 3 * allowed)
    return std::nullopt;
  return Finding{
      .name = "periodic_idling",
      .what =
          fmt::format("all GPUs were idle every {}, for {} each time, {:.0f} % of the run", time_text(period),
                      time_text(idle_s / static_cast<double>(pauses.size())), share * 100),
      .advice =
          {"find out what the training does at that period: checkpoints, validation, logging, an epoch's "
           "start; a timeline (trace_path) shows it",
           "prefetch across epochs: keep one loader for all epochs, and call warm_up() of the next one",
           "save checkpoints on another thread"},
      .from_s = judged.points[pauses.front().begin]->time_s,
      .to_s = judged.points[pauses.back().end - 1]->time_s};
}

std::optional<Finding> low_average(const Judged& judged) {
  constexpr double kLow = 0.15;
  if (!judged.has_gpus() || judged.mean_busy >= kLow) return std::nullopt;
  const std::vector<Point>& all = judged.record.points;
  return Finding{.name = "low_average",
                 .what = fmt::format("the GPUs were busy {:.0f} % on average", judged.mean_busy * 100),
                 .advice = {"measure what the loader can give: h5feed bench FILE; and what the model can "
                            "take: headroom = true",
                            "a larger batch_size, if the GPU's memory has room", "fewer GPUs for this job"},
                 .from_s = all.front().time_s,
                 .to_s = all.back().time_s};
}

}  // namespace h5feed::cli
