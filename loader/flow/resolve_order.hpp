// The options that decide which samples come in which order, checked against the data.
#pragma once

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/options.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {

/// Fills in batch size, shuffle, seed, and the rank's share. `chosen` are the samples that take part, null
/// for all. Throws OptionError naming the option and a value that works.
void resolve_order(const DataLoaderOptions& options, const DatasetState& dataset, const SampleSubset* chosen,
                   ResolvedOptions& resolved);

}  // namespace h5feed
