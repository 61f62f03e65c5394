// SPDX-License-Identifier: Apache-2.0
#include "flow/verdict/epoch_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/byte_units.hpp"
#include "flow/measure/ratio.hpp"

namespace h5feed {
namespace {

// Below this share of the time, the consumer is the bottleneck.
constexpr double kNoticeableWait = 0.05;
// Decodes per chunk above this are worth a larger cache.
constexpr double kDecodedAgain = 1.2;
// More workers than the work of a batch needs, as it is uneven.
constexpr double kReserve = 1.1;

double seconds(std::uint64_t ns) noexcept { return static_cast<double>(ns) * 1e-9; }

Verdict::Waits waits_of(const LoaderStats& during) {
  Verdict::Waits waits{.read = seconds(during.wait_read_ns),
                       .decode = seconds(during.wait_decode_ns),
                       .gather = seconds(during.wait_gather_ns),
                       .transform = seconds(during.wait_transform_ns),
                       .transfer = seconds(during.wait_transfer_ns),
                       .free_slot = seconds(during.wait_gpu_ns)};
  waits.other = std::max(0.0, seconds(during.wait_ns) - waits.total());
  return waits;
}

Verdict::Cause cause_of(const Verdict& verdict) {
  const Verdict::Waits& waits = verdict.waits;
  const double for_input = waits.total() - waits.free_slot;
  if (for_input <= std::max(waits.free_slot, kNoticeableWait * verdict.seconds))
    return Verdict::Cause::consumer;
  const auto stages = stage_waits(waits);
  return std::ranges::max_element(stages, {}, [](const auto& stage) { return stage.second; })->first;
}

// Returns the clause about workers; empty if more would not help.
std::string more_workers(const Verdict& verdict, const VerdictFacts& facts) {
  if (facts.num_workers == 0) return "num_workers auto: batches are then made while the model computes";
  const auto wanted = static_cast<std::int64_t>(std::ceil(std::min(verdict.needed_workers, 1e6) * kReserve));
  const std::int64_t most = std::max(facts.usable_cpus, facts.num_workers);
  if (wanted <= facts.num_workers) return {};
  if (wanted <= most && facts.cpu_limit)
    return fmt::format("cpu_limit {} instead of {:.3g} would feed this model", wanted, *facts.cpu_limit);
  if (wanted <= most)
    return format_counted(wanted - facts.num_workers, "worker more would feed this model",
                          "workers more would feed this model");
  const std::string cpus = format_counted(facts.usable_cpus, "CPU", "CPUs");
  std::string text = cpus;
  if (facts.cpu_limit) {
    text = fmt::format("cpu_limit {} instead of {:.3g} would use {}, which", facts.usable_cpus,
                       *facts.cpu_limit, facts.usable_cpus > 1 ? "all " + cpus : "the whole CPU");
  } else if (most > facts.num_workers) {
    text = fmt::format("{} would use all {}, which",
                       format_counted(most - facts.num_workers, "worker more", "workers more"), cpus);
  }
  const double share = static_cast<double>(most) / verdict.needed_workers;
  return share < 0.01 ? text + " can make less than 1 % of what the model takes"
                      : text + fmt::format(" can make at most {:.0f} % of what the model takes", 100 * share);
}

// Returns the clause about a cache that spares decodes and reads; empty if it would not.
std::string larger_cache(const LoaderStats& during, const VerdictFacts& facts) {
  if (facts.fit_bytes <= facts.cache_bytes || during.chunk_loads == 0 || facts.chunks == 0) return {};
  const double epochs = ratio(during.samples - during.samples_echoed, facts.samples);
  const double per_chunk = epochs > 0 ? ratio(during.chunk_loads, facts.chunks) / epochs : 0;
  if (per_chunk > kDecodedAgain) {
    return fmt::format(
        "each chunk is decoded {:.1f} times: shuffle \"chunk:K\", or cache_bytes {}, "
        "which holds all",
        per_chunk, format_bytes_ceil(facts.fit_bytes));
  }
  return fmt::format("cache_bytes {} would hold all from the second epoch on",
                     format_bytes_ceil(facts.fit_bytes));
}

// Returns what would help. The clauses name options and values without the syntax of a language, since one
// epoch_log serves C++ and Python.
std::vector<std::string> advice_of(const Verdict& verdict, const LoaderStats& during,
                                   const VerdictFacts& facts) {
  std::vector<std::string> advice;
  const auto add = [&](const std::string& clause) {
    if (!clause.empty()) advice.push_back(clause);
  };
  switch (verdict.bottleneck) {
    case Verdict::Cause::consumer:
    case Verdict::Cause::other:
      break;
    case Verdict::Cause::read:
      if (facts.num_workers == 0) add(more_workers(verdict, facts));
      add(fmt::format("storage gives {}/s, the model takes {}/s",
                      format_bytes(static_cast<std::uint64_t>(verdict.read_bytes_per_s)),
                      format_bytes(static_cast<std::uint64_t>(verdict.needed_bytes_per_s))));
      if (!facts.storage.empty())
        add(fmt::format(
            "the files are on {}, a network file system: stage_dir copies them to a local disk once",
            facts.storage));
      if (facts.num_workers > 0 && !facts.self_tuning)
        add("num_workers auto, or a larger io_depth, for more reads at once");
      add(larger_cache(during, facts));
      break;
    case Verdict::Cause::decode:
      add(more_workers(verdict, facts));
      add(larger_cache(during, facts));
      add("a filter that decodes faster: h5feed repack --filter lz4");
      break;
    case Verdict::Cause::gather:
    case Verdict::Cause::transform:
      add(more_workers(verdict, facts));
      break;
    case Verdict::Cause::transfer:
      add("fewer bytes per sample over the bus: uint8 without a host transform to float");
      break;
  }
  return advice;
}

}  // namespace

std::array<std::pair<Verdict::Cause, double>, 6> stage_waits(const Verdict::Waits& waits) noexcept {
  return {{{Verdict::Cause::read, waits.read},
           {Verdict::Cause::decode, waits.decode},
           {Verdict::Cause::gather, waits.gather},
           {Verdict::Cause::transform, waits.transform},
           {Verdict::Cause::transfer, waits.transfer},
           {Verdict::Cause::other, waits.other}}};
}

const char* waited_for(Verdict::Cause cause) noexcept {
  switch (cause) {
    case Verdict::Cause::consumer:
      return "its own work";
    case Verdict::Cause::read:
      return "reading";
    case Verdict::Cause::decode:
      return "decoding";
    case Verdict::Cause::gather:
      return "gathering";
    case Verdict::Cause::transform:
      return "the user's transform";
    case Verdict::Cause::transfer:
      return "the transfer";
    case Verdict::Cause::other:
      return "none of the loader's stages";
  }
  return "";
}

Verdict make_verdict(const LoaderStats& during, const VerdictFacts& facts) {
  Verdict verdict;
  verdict.rank = facts.rank;
  verdict.loader = facts.loader;
  verdict.data = facts.data;
  verdict.dataset_samples = facts.dataset_samples;
  verdict.samples = during.samples;
  verdict.batches = during.batches;
  verdict.seconds = seconds(during.epoch_ns);
  verdict.waits = waits_of(during);
  verdict.bottleneck = cause_of(verdict);
  verdict.num_workers = facts.num_workers;
  verdict.usable_cpus = facts.usable_cpus;
  const double computing = verdict.seconds - (verdict.waits.total() - verdict.waits.free_slot);
  if (verdict.seconds > 0)
    verdict.read_bytes_per_s = static_cast<double>(during.bytes_read) / verdict.seconds;
  if (computing > 0) {
    verdict.needed_bytes_per_s = static_cast<double>(during.bytes_read) / computing;
    const std::uint64_t work =
        during.read_ns + during.decode_ns + during.gather_ns + during.transform_ns + during.transfer_ns;
    verdict.needed_workers = seconds(work) / computing;
  }
  verdict.headroom = facts.headroom;
  if (!facts.headroom) verdict.advice = advice_of(verdict, during, facts);
  return verdict;
}

LoaderStats difference(const LoaderStats& after, const LoaderStats& before) {
  LoaderStats during = after;
  for (std::uint64_t LoaderStats::*const total :
       {&LoaderStats::batches, &LoaderStats::samples, &LoaderStats::samples_echoed, &LoaderStats::chunk_loads,
        &LoaderStats::bytes_read, &LoaderStats::read_ns, &LoaderStats::decode_ns, &LoaderStats::gather_ns,
        &LoaderStats::transform_ns, &LoaderStats::transfer_ns, &LoaderStats::wait_ns,
        &LoaderStats::wait_read_ns, &LoaderStats::wait_decode_ns, &LoaderStats::wait_gather_ns,
        &LoaderStats::wait_transform_ns, &LoaderStats::wait_gpu_ns, &LoaderStats::wait_transfer_ns,
        &LoaderStats::epoch_ns}) {
    during.*total -= std::min(during.*total, before.*total);
  }
  return during;
}

}  // namespace h5feed
