// SPDX-License-Identifier: Apache-2.0
// The options that decide which samples come in which order, checked against the data.
#pragma once

#include <memory>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/options.hpp"
#include "plan/epoch_plan.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {

/// Fills in batch size, shuffle, seed, and the rank's share; the rest is left for `resolve_options`. `chosen`
/// are the samples that take part, null for all. Asks a sampler for its first epoch. Throws OptionError
/// naming the option and a value that works, and what a sampler throws.
ResolvedOptions resolve_order(const DataLoaderOptions& options, const DatasetState& dataset,
                              const SampleSubset* chosen);

/// What decides an order beside resolved options: each may be null.
struct OrderSources {
  std::shared_ptr<const Sampler> sampler;
  std::shared_ptr<const BatchSampler> batch_sampler;
  std::shared_ptr<const SampleSubset> chosen;
};

/// The plan of a loader's epochs, each from its begin.
PlanSpec make_plan_spec(const OrderSources& sources, const DatasetState& dataset,
                        const ResolvedOptions& options);

}  // namespace h5feed
