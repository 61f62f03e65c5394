// SPDX-License-Identifier: Apache-2.0
// Faults of a loader's settings on this machine.
#pragma once

#include <cstdint>
#include <optional>

#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "tools/doctor/fault.hpp"
#include "tools/doctor/speed.hpp"

namespace h5feed::cli {

/// Returns the fault of a machine that leaves few of its cores to this process, or fewer than half as many as
/// `num_workers`.
std::optional<Fault> core_fault(const SystemLimits& limits, std::int64_t num_workers);

/// Returns the fault of a loader without workers. `with_auto` is what a self-tuning loader reached in the
/// same way as `speed`.
std::optional<Fault> worker_fault(std::int64_t num_workers, const std::optional<Speed>& speed,
                                  const std::optional<Speed>& with_auto);

/// Returns the fault of an order for which the cache is too small. Throws std::bad_alloc.
std::optional<Fault> cache_fault(const DatasetState& dataset, const ResolvedOptions& options);

}  // namespace h5feed::cli
