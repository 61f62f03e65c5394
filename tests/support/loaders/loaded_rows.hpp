// SPDX-License-Identifier: Apache-2.0
// Compares what a loader delivers with what was written to the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"

namespace h5feed::test {

/// Samples of one epoch as delivered, with their targets.
struct LoadedRows {
  std::map<std::int64_t, std::vector<std::byte>> data;  ///< samples by number
  std::map<std::int64_t, std::vector<std::byte>> target;
};

/// Runs one epoch. Throws std::runtime_error if a sample is delivered twice with different bytes.
LoadedRows load_rows(const Dataset& dataset, const DataLoaderOptions& options);

/// Loads the dataset with each combination of options that it must support: in order, fully shuffled and
/// shuffled by windows of chunks, with and without a cache, with 0, 1 and 4 workers, row by row and by
/// chunks, with every cache policy. Returns the first difference from `expected`, which holds the samples'
/// bytes in order; empty if there is none.
std::string first_difference(const Dataset& dataset, const std::vector<std::byte>& expected,
                             const std::vector<std::byte>& expected_target = {});

}  // namespace h5feed::test
