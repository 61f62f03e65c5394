// What a loader delivers against what a file was written with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"

namespace h5feed::test {

/// One epoch of samples as delivered, with their targets.
struct LoadedRows {
  std::map<std::int64_t, std::vector<std::byte>> data;  ///< by sample number
  std::map<std::int64_t, std::vector<std::byte>> target;
};

/// Runs one epoch. A sample that comes twice with other bytes, or a batch of the wrong size, throws
/// std::runtime_error.
LoadedRows load_rows(const Dataset& dataset, const DataLoaderOptions& options);

/// The rows of all `options` that a dataset has to stand: in order, shuffled as a whole and by windows of
/// chunks, without a cache and with one, with 0, 1 and 4 workers, row by row and by chunks, with every cache
/// policy. Empty, or the first difference from `expected`, which holds the samples' bytes in order.
std::string first_difference(const Dataset& dataset, const std::vector<std::byte>& expected,
                             const std::vector<std::byte>& expected_target = {});

}  // namespace h5feed::test
