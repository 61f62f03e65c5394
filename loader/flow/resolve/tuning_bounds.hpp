// SPDX-License-Identifier: Apache-2.0
// Bounds within which `num_workers = kAuto` chooses.
#pragma once

#include <cstdint>

#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/resolve/resolve_options.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// Default of `prefetch_factor`.
inline constexpr std::int64_t kDefaultPrefetchFactor = 2;

/// Throws OptionError if `cpu_limit` or `local_world_size` is out of range, or `cpu_limit` has no effect.
void check_host_share(const DataLoaderOptions& options);

/// Sets `self_tuning`, `cpu_limit`, `num_workers` and `prefetch_batches` of `resolved` to the most that may
/// be chosen within `memory` bytes: at most a quarter of them for chunks that are decoded at once, and a
/// quarter for more than two batches in preparation.
void bound_self_tuning(const DataLoaderOptions& options, const DatasetState& dataset,
                       const DeliveryFormat& format, const SystemLimits& limits, std::uint64_t memory,
                       ResolvedOptions& resolved);

/// Returns how many batches are usually prefetched: `prefetch_batches`, or fewer with self-tuning.
std::uint64_t usual_prefetch(const ResolvedOptions& options) noexcept;

}  // namespace h5feed
