// SPDX-License-Identifier: Apache-2.0
// Identifies a dataset in a saved state.
#pragma once

#include <cstdint>

#include "dataset/dataset_state.hpp"

namespace h5feed {

/// Returns a hash of the path in the file, type and shape of the data and the target, of the tiling, and of
/// the target's values if they are in memory. Independent of the file's name, chunks and filters, so a file
/// may be moved and repacked. Hashes the target values at every call.
std::uint64_t dataset_fingerprint(const DatasetState& dataset);

}  // namespace h5feed
