// SPDX-License-Identifier: Apache-2.0
// Tells datasets apart in a saved state.
#pragma once

#include <cstdint>

#include "dataset/dataset_state.hpp"

namespace h5feed {

/// A number made of the data's path in the file, type and shape, and of the targets where they are in memory;
/// not of the file's name, chunks or filters, so that a file may be moved and repacked. Reads the targets
/// once a call.
std::uint64_t dataset_fingerprint(const DatasetState& dataset);

}  // namespace h5feed
