// SPDX-License-Identifier: Apache-2.0
// Resolves the options that decide which samples are delivered in which order.
#pragma once

#include <memory>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/options.hpp"
#include "plan/epoch_plan.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {

/// Resolves batch size, shuffle, seed and the rank's share; `resolve_options` resolves the rest. `chosen` is
/// the subset of samples; null selects all. Calls a sampler for its first epoch. Throws OptionError that
/// names the option and a value that works, and whatever a sampler throws.
ResolvedOptions resolve_order(const DataLoaderOptions& options, const DatasetState& dataset,
                              const SampleSubset* chosen);

/// Custom sources of the order in addition to the resolved options. Each may be null.
struct OrderSources {
  std::shared_ptr<const Sampler> sampler;
  std::shared_ptr<const BatchSampler> batch_sampler;
  std::shared_ptr<const SampleSubset> chosen;
};

/// Returns the specification of a loader's epochs, each from its first batch.
PlanSpec make_plan_spec(const OrderSources& sources, const DatasetState& dataset,
                        const ResolvedOptions& options);

}  // namespace h5feed
