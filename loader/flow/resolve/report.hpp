// SPDX-License-Identifier: Apache-2.0
// A loader's run in a few lines for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/system_limits.hpp"
#include "flow/resolve/row_forecast.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/stats.hpp"

namespace h5feed {

/// What the counters are measured against.
struct DataFacts {
  std::uint64_t samples = 0;       ///< of an epoch, on this rank
  std::uint64_t chunks = 0;        ///< that these come from
  std::uint64_t fit_bytes = 0;     ///< `cache_bytes` from which all decoded data stays in memory
  std::uint64_t stored_bytes = 0;  ///< of the fields that are not in memory as a whole
  std::uint64_t cache_bytes = 0;   ///< capacity of the cache in use, which loaders may share
  std::string device;              ///< `Device::name`
  std::string budget_bound_by;     ///< what `memory_budget_bytes` comes from
  /// Decodes per chunk, about the least possible with this cache; empty where it cannot be told.
  std::optional<RowForecast> optimum;
};

std::string format_report(const LoaderStats& stats, const ResolvedOptions& options,
                          const SystemLimits& limits, const DataFacts& data);

}  // namespace h5feed
