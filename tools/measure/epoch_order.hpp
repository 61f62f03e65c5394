// SPDX-License-Identifier: Apache-2.0
// The order of an epoch, for measuring other loaders in the same order.
#pragma once

#include <cstdint>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "flow/resolve/resolve_order.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/options.hpp"
#include "plan/epoch_plan.hpp"

namespace h5feed {

/// Returns the sample numbers of a loader's first epoch, in order. Throws OptionError.
inline std::vector<std::int64_t> epoch_order(const Dataset& dataset, const DataLoaderOptions& options) {
  const DatasetState& state = *DatasetAccess::state(dataset);
  const EpochPlan plan(make_plan_spec({}, state, resolve_order(options, state, nullptr)), 0);
  std::vector<std::int64_t> order;
  for (std::uint64_t number = 0; number < plan.num_batches(); ++number) {
    const std::vector<std::int64_t> batch = plan.batch(number);
    order.insert(order.end(), batch.begin(), batch.end());
  }
  return order;
}

}  // namespace h5feed
