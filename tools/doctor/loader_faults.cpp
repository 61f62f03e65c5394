// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/loader_faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/byte_units.hpp"
#include "flow/resolve/advice.hpp"
#include "tools/bench/report.hpp"

namespace h5feed::cli {
namespace {

constexpr const char* kWorkersLine = "DataLoader(..., num_workers=\"auto\")";

std::string cores_text(unsigned cores) { return fmt::format("{} {}", cores, cores == 1 ? "core" : "cores"); }

}  // namespace

std::optional<Fault> core_fault(const SystemLimits& limits, std::int64_t num_workers) {
  const bool bound = limits.cpus < limits.host_cpus;
  const bool starved = bound && limits.cpus == 1;
  const bool crowded = num_workers != kAuto && num_workers > 2 * static_cast<std::int64_t>(limits.cpus);
  if (!starved && !crowded) return std::nullopt;
  Fault fault{.severity = starved || bound ? Severity::serious : Severity::minor, .name = "too_few_cores"};
  fault.what = bound ? fmt::format("this process may use {} of the {} cores of the host ({})", limits.cpus,
                                   limits.host_cpus, limits.cpus_bound_by)
                     : fmt::format("the machine has {}", cores_text(limits.cpus));
  fault.what += num_workers != kAuto && num_workers > 1
                    ? fmt::format(", which {} workers and the training share", num_workers)
                    : ", which all workers and the training share";
  if (bound && limits.cpus_bound_by == "affinity") {
    fault.mend = {
        fmt::format("taskset -c 0-{} COMMAND", limits.host_cpus - 1),
        fmt::format("srun --cpus-per-task={} COMMAND  # with Slurm", std::min(8U, limits.host_cpus))};
  } else if (bound) {
    fault.mend = {fmt::format("docker run --cpus={}  # Kubernetes: resources.limits.cpu",
                              std::min(8U, limits.host_cpus))};
  }
  if (crowded) fault.mend.emplace_back(kWorkersLine);
  return fault;
}

std::optional<Fault> worker_fault(std::int64_t num_workers, const std::optional<Speed>& speed,
                                  const std::optional<Speed>& with_auto) {
  if (num_workers != 0) return std::nullopt;
  std::string what = "num_workers=0: the training stands still while each of its batches is read and decoded";
  constexpr double kWorthMention = 1.1;  // a loop that does nothing else hides the rest of the gain
  if (speed && with_auto && with_auto->samples_per_s() > kWorthMention * speed->samples_per_s()) {
    what += fmt::format("; measured {} samples/s, and {} with num_workers=\"auto\"",
                        rate_text(speed->samples_per_s()), rate_text(with_auto->samples_per_s()));
  }
  return Fault{Severity::serious, "no_workers", what, {kWorkersLine}};
}

std::optional<Fault> cache_fault(const DatasetState& dataset, const ResolvedOptions& options) {
  const std::optional<ShuffleCost> cost = shuffle_cost(dataset, options);
  if (!cost) return std::nullopt;
  const bool windows = options.shuffle.kind() == Shuffle::Kind::chunk;
  Fault fault{.severity = Severity::serious,
              .name = windows ? "window_exceeds_cache" : "cache_too_small",
              .what = fmt::format("shuffle=\"{}\" needs {} of chunks at once, and cache_bytes is {}: each "
                                  "chunk is decoded about {:.1f} times in an epoch",
                                  options.shuffle.to_string(), format_bytes_ceil(cost->cache_bytes),
                                  format_bytes(options.cache_bytes), cost->decodes)};
  if (cost->window_chunks > 0) {
    fault.mend.push_back(fmt::format(
        "DataLoader(..., shuffle=\"chunk:{}\")  # decodes each chunk once; mixes {:.0f} % as well "
        "as \"full\"",
        cost->window_chunks, 100 * cost->window_mixing));
  }
  fault.mend.push_back(fmt::format("DataLoader(..., cache_bytes={})  # {}", cost->cache_bytes,
                                   format_bytes_ceil(cost->cache_bytes)));
  if (windows) std::ranges::reverse(fault.mend);
  if (cost->clairvoyant) {
    fault.mend.push_back(
        fmt::format("DataLoader(..., cache_policy=\"clairvoyant\")  # decodes each chunk {:.1f} times",
                    *cost->clairvoyant));
  }
  return fault;
}

}  // namespace h5feed::cli
