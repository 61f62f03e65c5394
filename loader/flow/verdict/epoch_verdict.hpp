// SPDX-License-Identifier: Apache-2.0
// From counters to a verdict.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "h5feed/stats.hpp"
#include "h5feed/verdict.hpp"

namespace h5feed {

/// Properties of a loader that its verdict relates the counters to.
struct VerdictFacts {
  std::int64_t rank = 0;
  std::uint64_t loader = 0;           ///< Number of the loader in this process
  std::string data = {};              ///< What the loader delivers: "train.h5:/images"
  std::uint64_t dataset_samples = 0;  ///< Samples of the dataset, or of the subset that the loader has
  std::int64_t num_workers = 0;       ///< Workers in use; 0: the consumer does their work
  std::int64_t usable_cpus = 1;       ///< CPUs for this process
  bool headroom = false;              ///< One batch was repeated
  bool self_tuning = false;           ///< The loader chooses its workers
  std::optional<double> cpu_limit =
      {};                         ///< Keeps self-tuning below its share of the CPUs; unset: it does not
  std::uint64_t samples = 0;      ///< Samples per epoch, repeats excluded
  std::uint64_t chunks = 0;       ///< Chunks that `samples` come from
  std::uint64_t fit_bytes = 0;    ///< Smallest `cache_bytes` that holds all decoded data
  std::uint64_t cache_bytes = 0;  ///< Capacity of the cache
  std::string storage = {};       ///< Network file system of the files, such as "nfs"; empty: a local one
};

/// Returns the verdict on the stretch of time that `during` counts, all of `during.epoch_ns`; its epoch is 0
/// and it is not finished. Throws std::bad_alloc.
Verdict make_verdict(const LoaderStats& during, const VerdictFacts& facts);

/// Returns what was counted from `before` to `after`; members that are not totals are those of `after`.
LoaderStats difference(const LoaderStats& after, const LoaderStats& before);

/// Returns the waits for input, with their causes.
std::array<std::pair<Verdict::Cause, double>, 6> stage_waits(const Verdict::Waits& waits) noexcept;

/// Returns what a wait for the cause was for: "reading", "decoding", …
const char* waited_for(Verdict::Cause cause) noexcept;

}  // namespace h5feed
