// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/resolve.hpp"

#include <utility>

#include "dataset/null_characters.hpp"
#include "flow/resolve/resolve_order.hpp"
#include "flow/resolve/sparse_format.hpp"

namespace h5feed {

Resolved resolve(const DataLoaderOptions& options, const DatasetState& dataset, const SampleSubset* chosen,
                 const SystemLimits& limits, MemoryClaim memory) {
  refuse_null_characters(options);
  Resolved resolved;
  resolved.placement = resolve_placement(options, dataset);
  check_sparse(options, dataset, resolved.placement);
  resolved.transform = StoredTransform(options.transform, dataset);
  const ResolvedOptions order = resolve_order(options, dataset, chosen);
  resolved.format =
      assembly_format(resolved.placement, options, dataset, static_cast<std::uint64_t>(order.max_batch_rows));
  resolved.group = LoaderGroup::of(dataset);
  resolved.membership = resolved.group->join([&](const MemoryUse& others) {
    Resolution resolution = resolve_options(options, dataset, order, resolved.format, limits, others);
    resolved.options = resolution.options;
    return memory == MemoryClaim::taken ? resolution.memory : MemoryUse{};
  });
  return resolved;
}

}  // namespace h5feed
