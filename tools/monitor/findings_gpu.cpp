// SPDX-License-Identifier: Apache-2.0
// Faults that concern single GPUs: lowered clocks, silence, growing memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "cuda/nvml/nvml.hpp"
#include "tools/monitor/findings.hpp"

namespace h5feed::cli {
namespace {

// Bits of nvmlClocksThrottleReasons. A GPU at full load reaches its power cap without harm.
constexpr std::uint64_t kPowerCap = 0x4, kHarmful = 0x8 | 0x20 | 0x40 | 0x80;

struct Slowdown {
  std::size_t points = 0;  // points with lowered clocks
  std::uint64_t reasons = 0;
  double first_s = 0, last_s = 0;
};

Slowdown slowdown_of(const Judged& judged, std::size_t gpu) {
  Values clocks;
  for (const Point* const point : judged.points) {
    if (point->gpus[gpu].sm_clock_mhz) clocks.push_back(*point->gpus[gpu].sm_clock_mhz);
  }
  const double usual_mhz = quantile(clocks, 0.95);
  Slowdown slow;
  for (const Point* const point : judged.points) {
    const GpuPoint& here = point->gpus[gpu];
    const bool capped = (here.throttle_reasons & kPowerCap) != 0 && here.sm_clock_mhz &&
                        *here.sm_clock_mhz < 0.85 * usual_mhz;
    const std::uint64_t reasons = (here.throttle_reasons & kHarmful) | (capped ? kPowerCap : 0);
    if (reasons == 0) continue;
    if (slow.points++ == 0) slow.first_s = point->time_s;
    slow.last_s = point->time_s;
    slow.reasons |= reasons;
  }
  return slow;
}

std::size_t gpus_of(const Judged& judged) { return judged.has_gpus() ? judged.record.gpus.size() : 0; }

// Ends of the parts of a run in which memory is compared: the epochs, or eight parts of equal length.
std::vector<double> part_ends(const Judged& judged) {
  std::vector<double> ends;
  for (const LoaderEpoch& epoch : judged.training_epochs()) {
    if (epoch.finished) ends.push_back(epoch.end_s);
  }
  if (ends.size() >= 5) return ends;
  ends.clear();
  constexpr int kParts = 8;
  for (int part = 1; part <= kParts; ++part)
    ends.push_back(judged.begin_s() + (judged.end_s() - judged.begin_s()) * part / kParts);
  return ends;
}

// Largest memory in use in each part that has points.
Values peaks_of(const Judged& judged, std::size_t gpu, const std::vector<double>& ends) {
  Values peaks;
  auto point = judged.points.begin();
  for (const double end : ends) {
    std::optional<double> peak;
    for (; point != judged.points.end() && (*point)->time_s <= end; ++point)
      peak = std::max(peak, (*point)->gpus[gpu].memory_used_bytes);
    if (peak) peaks.push_back(*peak);
  }
  return peaks;
}

}  // namespace

std::optional<Finding> throttling(const Judged& judged) {
  constexpr double kNoticeable = 0.05;
  for (std::size_t gpu = 0; gpu < gpus_of(judged); ++gpu) {
    const Slowdown slow = slowdown_of(judged, gpu);
    const double share = static_cast<double>(slow.points) / static_cast<double>(judged.points.size());
    if (share < kNoticeable) continue;
    const unsigned index = judged.record.gpus[gpu].index;
    return Finding{
        .name = "throttling",
        .what = fmt::format("the clocks of GPU {} were lowered {:.0f} % of the time: {}", index, share * 100,
                            gpu::throttle_text(slow.reasons)),
        .advice = {"check the cooling and the power limit: nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE",
                   "nothing in the loader makes a throttled GPU faster"},
        .from_s = slow.first_s,
        .to_s = slow.last_s,
        .gpu = index};
  }
  return std::nullopt;
}

std::optional<Finding> silent_gpu(const Judged& judged) {
  constexpr double kSilent = 0.05, kWorking = 0.3;
  const std::size_t least = std::max(kFewestPoints, judged.points.size() / 10);
  for (std::size_t gpu = 0; gpus_of(judged) > 1 && gpu < gpus_of(judged); ++gpu) {
    const auto silent = [&](std::size_t i) { return judged.points[i]->gpus[gpu].busy.value_or(0) < kSilent; };
    // Points of a stretch in which another GPU works.
    const auto alone = [&](const Span& stretch) {
      std::size_t points = 0;
      for (std::size_t i = stretch.begin; i < stretch.end; ++i) {
        const auto works = [](const GpuPoint& other) { return other.busy.value_or(0) > kWorking; };
        if (std::ranges::any_of(judged.points[i]->gpus, works)) ++points;
      }
      return points;
    };
    const std::vector<Span> stretches = stretches_where(judged.points.size(), silent);
    const auto longest = std::ranges::max_element(stretches, {}, alone);
    if (longest == stretches.end() || alone(*longest) < std::max(least, longest->size() * 4 / 5)) continue;
    const unsigned index = judged.record.gpus[gpu].index;
    const double from = judged.points[longest->begin]->time_s;
    const double to = judged.points[longest->end - 1]->time_s;
    const bool always = longest->size() + 2 >= judged.points.size();
    return Finding{
        .name = "silent_gpu",
        .what = always ? fmt::format("GPU {} did nothing while the others worked", index)
                       : fmt::format("GPU {} fell silent after {}, for {}, while the others worked", index,
                                     time_text(from), time_text(to - from)),
        .advice =
            {always ? "start one process for each GPU (torchrun --nproc-per-node), or hide the GPU that is "
                      "not meant to work with --gpu"
                    : "look at the log of its rank: it ended, hangs in a collective, or got no batch",
             "compare the verdicts of the ranks: loader.verdict() and epoch_log carry the rank"},
        .from_s = from,
        .to_s = to,
        .gpu = index};
  }
  return std::nullopt;
}

std::optional<Finding> device_memory_rises(const Judged& judged) {
  constexpr double kOfAll = 0.02;
  const std::vector<double> ends = part_ends(judged);
  for (std::size_t gpu = 0; gpu < gpus_of(judged); ++gpu) {
    const Values peaks = peaks_of(judged, gpu, ends);
    const std::optional<double> total = judged.points.back()->gpus[gpu].memory_total_bytes;
    // The first part fills the caches of allocators.
    if (peaks.size() < 5 || !total) continue;
    std::size_t rises = 0;
    for (std::size_t i = 2; i < peaks.size(); ++i)
      if (peaks[i] > peaks[i - 1]) ++rises;
    const std::size_t steps = peaks.size() - 2;
    const double growth = peaks.back() - peaks[1];
    if (static_cast<double>(rises) < 0.9 * static_cast<double>(steps) || growth < kOfAll * *total) continue;
    const unsigned index = judged.record.gpus[gpu].index;
    const bool by_epoch = ends.size() != 8 || judged.training_epochs().size() >= 5;
    const double per_part = growth / static_cast<double>(steps);
    return Finding{
        .name = "device_memory_rises",
        .what = fmt::format("the memory of GPU {} in use rose from {} to {}, {}", index,
                            value_text(peaks[1], Unit::bytes), value_text(peaks.back(), Unit::bytes),
                            by_epoch ? fmt::format("by {} an epoch", value_text(per_part, Unit::bytes))
                                     : fmt::format("and is {:.0f} % of all", 100 * peaks.back() / *total)),
        .advice = {"keep numbers, not tensors, over batches: total += loss.item(), not total += loss",
                   "release batches and outputs of the last epoch before the next; validate under no_grad()"},
        .from_s = judged.begin_s(),
        .to_s = judged.end_s(),
        .gpu = index};
  }
  return std::nullopt;
}

}  // namespace h5feed::cli
