// SPDX-License-Identifier: Apache-2.0
#include "flow/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "flow/measure/ratio.hpp"
#include "flow/verdict/epoch_verdict.hpp"

namespace h5feed {
namespace {

double seconds(std::uint64_t ns) noexcept { return static_cast<double>(ns) * 1e-9; }

// Returns e.g. "the GPU was busy 41 %; of the other 59 points, 55 waited for decoding, 4 were the program's
// own"; empty without a GPU probe. Waits of the host count only up to the GPU's idle time.
std::string gpu_verdict(const LoaderStats& stats, const Verdict& verdict) {
  const std::string use = stats.gpu.to_string();
  const std::optional<double> busy = stats.gpu.busy.mean();
  if (!busy) return use.empty() ? use : use + "\n";
  const double rest = 100 - std::round(*busy * 100);
  if (rest < 1) return use + "\n";
  const Verdict::Waits& waits = verdict.waits;
  const double input = real_ratio(waits.total() - waits.free_slot, verdict.seconds) * 100;
  const double scale = input > 0 ? std::min(rest, input) / input : 0;
  std::vector<std::string> parts;
  double told = 0;
  for (const auto& [cause, wait] : stage_waits(waits)) {
    const double points = std::round(real_ratio(wait, verdict.seconds) * 100 * scale);
    if (points < 1) continue;
    told += points;
    parts.push_back(fmt::format("{:.0f} waited for {}", points, waited_for(cause)));
  }
  if (rest - told >= 1) parts.push_back(fmt::format("{:.0f} were the program's own", rest - told));
  return fmt::format("{}; of the other {:.0f} points, {}\n", use, rest, fmt::join(parts, ", "));
}

// Returns the line about decodes; empty if no chunk was decoded.
std::string decodes(const LoaderStats& stats, const DataFacts& data) {
  const std::uint64_t fresh = stats.samples - stats.samples_echoed;
  if (stats.chunk_loads == 0 || fresh == 0 || data.verdict.headroom) return {};
  const double epochs = ratio(fresh, data.verdict.samples);
  const double per_chunk = ratio(stats.chunk_loads, data.verdict.chunks) / epochs;
  std::string text = fmt::format("decodes: {:.2f} per chunk and epoch", per_chunk);
  // The optimum is unknown before the end of the first epoch.
  if (epochs >= 1 && data.optimum) {
    const double optimum = (data.optimum->first_epoch + (epochs - 1) * data.optimum->later_epochs) / epochs;
    text += fmt::format(" (offline optimum about {:.2f} by rows, distance {:+.0f} %)", optimum,
                        (per_chunk / optimum - 1) * 100);
  }
  return text + fmt::format("; {:.2f} bytes read per stored byte and epoch\n",
                            ratio(stats.bytes_read, data.stored_bytes) / epochs);
}

// Returns the lines about pinned and GPU memory; empty on the CPU.
std::string gpu_memory(const LoaderStats& stats) {
  std::string text;
  if (stats.pinned_bytes > 0 || stats.gpu_memory) {
    text += fmt::format("\nhost memory: pinned {}, cache {}, batches in flight {}",
                        format_bytes(stats.pinned_bytes), format_bytes(stats.cache_bytes),
                        format_bytes(stats.in_flight_bytes));
  }
  if (stats.pageable_batches > 0) {
    text += fmt::format("; batches assembled in pageable memory: {}", format_count(stats.pageable_batches));
  }
  if (stats.gpu_memory) {
    const GpuMemory& gpu = *stats.gpu_memory;
    text += fmt::format(
        "\ncuda:{} memory: loader {} (peak {}), rest {} ({} when the loader was made), free {} of {}",
        gpu.device, format_bytes(gpu.loader), format_bytes(gpu.loader_peak), format_bytes(gpu.rest()),
        format_bytes(gpu.at_start), format_bytes(gpu.free), format_bytes(gpu.total));
  }
  if (stats.gpu_cache_hits > 0 || stats.gpu_cache_bytes > 0) {
    text += fmt::format("\nGPU cache: {:.1f} % of the samples were on the GPU, {} taken",
                        ratio(stats.gpu_cache_hits, stats.samples - stats.samples_echoed) * 100,
                        format_bytes(stats.gpu_cache_bytes));
  }
  return text;
}

}  // namespace

std::string format_report(const LoaderStats& stats, const ResolvedOptions& options,
                          const SystemLimits& limits, const DataFacts& data) {
  const double time = seconds(stats.epoch_ns);
  std::string text = fmt::format(
      "{} samples in {} batches, {:.2f} s, {} samples/s; seed {}, num_workers {}, device {}\n",
      format_count(stats.samples), format_count(stats.batches), time,
      format_count(time > 0 ? static_cast<std::uint64_t>(static_cast<double>(stats.samples) / time) : 0),
      options.seed, options.self_tuning ? "auto" : std::to_string(options.num_workers), data.device);
  const Verdict verdict = make_verdict(stats, data.verdict);
  text += verdict.to_string() + "\n";
  if (!data.tuning.empty()) text += data.tuning + "\n";
  if (data.mixing) {
    text += fmt::format("echo: {} of the samples were repeats; mixing {:.2f}, {:.2f} with echo.factor {}\n",
                        format_count(stats.samples_echoed), *data.mixing,
                        *data.mixing / static_cast<double>(options.echo_factor), options.echo_factor);
  }
  text += gpu_verdict(stats, verdict);
  text += fmt::format(
      "work: read {:.2f} s, decode {:.2f} s, gather {:.2f} s{}{}; {} read, {} decoded, {} delivered\n",
      seconds(stats.read_ns), seconds(stats.decode_ns), seconds(stats.gather_ns),
      stats.transform_ns > 0 ? fmt::format(", transform {:.2f} s", seconds(stats.transform_ns)) : "",
      stats.gpu_memory ? fmt::format(", transfer {:.2f} s", seconds(stats.transfer_ns)) : "",
      format_bytes(stats.bytes_read), format_bytes(stats.bytes_decoded), format_bytes(stats.bytes_delivered));
  const std::string would_fit =
      data.verdict.fit_bytes > data.verdict.cache_bytes
          ? fmt::format(" (all would fit from {})", format_bytes_ceil(data.verdict.fit_bytes))
          : std::string();
  text += fmt::format(
      "cache: hit rate {:.1f} %, {} of {} held{}; rows read directly: {}; chunks through libhdf5: {}\n",
      stats.cache_hit_rate() * 100, format_bytes(stats.cache_bytes), format_bytes(data.verdict.cache_bytes),
      would_fit, format_count(stats.rows_direct), format_count(stats.fallback_chunks));
  text += decodes(stats, data);
  if (!data.mixture.empty()) text += data.mixture + "\n";
  text += fmt::format("memory: budget {} (bound by {}); batches out {}; usable CPUs {} (bound by {})",
                      format_bytes(options.memory_budget_bytes), data.budget_bound_by,
                      format_bytes(stats.outputs_held_bytes), limits.cpus, limits.cpus_bound_by);
  if (limits.lockable_bytes) {
    text += fmt::format("; lockable memory {} (ulimit -l)", format_bytes(*limits.lockable_bytes));
  }
  text += gpu_memory(stats);
  if (stats.bad_chunks > 0) {
    text += fmt::format("\nbad data: {} {}; samples left out {}, replaced {}", format_count(stats.bad_chunks),
                        stats.bad_chunks == 1 ? "chunk" : "chunks", format_count(stats.samples_skipped),
                        format_count(stats.samples_replaced));
  }
  if (stats.read_retries > 0)
    text += fmt::format("\nreads tried again: {}", format_count(stats.read_retries));
  if (!data.storage.empty()) text += "\nstorage: " + data.storage;
  if (stats.errors > 0) text += fmt::format("\nfailed batches: {}", format_count(stats.errors));
  return text;
}

}  // namespace h5feed
