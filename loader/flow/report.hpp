// SPDX-License-Identifier: Apache-2.0
// Formats the report of a loader's run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/system_limits.hpp"
#include "flow/resolve/row_forecast.hpp"
#include "flow/verdict/epoch_verdict.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/stats.hpp"

namespace h5feed {

/// Properties of data and cache that the report relates the counters to.
struct DataFacts {
  VerdictFacts verdict;            ///< Of samples, chunks, cache and workers
  std::uint64_t stored_bytes = 0;  ///< Stored bytes of the fields not held in memory as a whole
  std::string device;              ///< Name of the device (`Device::name`)
  std::string budget_bound_by;     ///< Source of `memory_budget_bytes`
  std::string tuning;              ///< What self-tuning has chosen, and why; empty without it
  std::string mixture;             ///< Shares and passes of the sets of a mixture; empty without one
  std::string storage;             ///< Sentence about slow storage (storage_line.hpp); empty: no line
  std::optional<double> mixing;    ///< `PlanReport::mixing`; unset without echo
  /// Decodes per chunk, close to the minimum possible with this cache; unset if not predictable.
  std::optional<RowForecast> optimum;
};

/// Returns the report: several lines of text, the last without a line break. Throws std::bad_alloc.
std::string format_report(const LoaderStats& stats, const ResolvedOptions& options,
                          const SystemLimits& limits, const DataFacts& data);

}  // namespace h5feed
