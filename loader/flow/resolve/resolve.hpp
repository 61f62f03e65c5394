// SPDX-License-Identifier: Apache-2.0
// Resolves the options of a loader or reader: the one place where their decisions are made.
#pragma once

#include <cstdint>
#include <memory>

#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/resolve/loader_group.hpp"
#include "flow/resolve/placement.hpp"
#include "flow/resolve/resolve_options.hpp"
#include "flow/values/stored_transform.hpp"
#include "h5feed/data_loader.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {

/// Everything that options, data and machine decide before the first batch.
struct Resolved {
  Placement placement;        ///< Where batches go, and how the data is converted
  StoredTransform transform;  ///< The user's, of stored samples
  ResolvedOptions options;    ///< Order, workers, cache and memory
  DeliveryFormat format;      ///< Batches as workers assemble them
  // Order matters: the group outlives the membership.
  std::shared_ptr<LoaderGroup> group;                   ///< Loaders of the same opened dataset
  std::unique_ptr<LoaderGroup::Membership> membership;  ///< Holds the memory of `options` in `group`
};

/// Memory that `resolve` enters into the account of the group.
enum class MemoryClaim : std::uint8_t {
  taken,    ///< The memory of the resolved options
  foreseen  ///< Nothing: the options are only looked at
};

/// Resolves `options` for `dataset`; `chosen` is the subset of samples, null selects all. Resolves within the
/// memory that the dataset's other loaders leave, one loader at a time, so two cannot count on the same
/// memory. Calls the log sink, and a sampler for its first epoch; no other callback of the user. Throws
/// OptionError that names the option and a value that works, DeviceError if no GPU is usable, and whatever a
/// sampler throws. `SampleReaderOptions::unit_range` is the only option not decided here: `SampleReader` adds
/// it to `options.normalize` first, by `with_unit_range`, as loaders have no such option.
Resolved resolve(const DataLoaderOptions& options, const DatasetState& dataset, const SampleSubset* chosen,
                 const SystemLimits& limits, MemoryClaim memory = MemoryClaim::taken);

}  // namespace h5feed
