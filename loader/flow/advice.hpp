// What a choice of shuffle and cache will cost, said before the run.
#pragma once

#include <string>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"

namespace h5feed {

/// Expected times each chunk of the data is decoded in one epoch after the first, under LRU.
double expected_decodes_per_chunk(const DatasetState& dataset, const ResolvedOptions& options);

/// One line with computed figures where chunks will be decoded twice or more; empty otherwise.
std::string shuffle_advice(const DatasetState& dataset, const ResolvedOptions& options);

}  // namespace h5feed
