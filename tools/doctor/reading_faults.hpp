// SPDX-License-Identifier: Apache-2.0
// Findings of `doctor` about samples that cannot be read.
#pragma once

#include <optional>
#include <string>

#include "dataset/dataset_state.hpp"
#include "tools/doctor/examined.hpp"
#include "tools/doctor/fault.hpp"

namespace h5feed::cli {

/// Returns whether the samples are encoded images; of several files, the first stands for all. Blocks. Throws
/// FileError, DatasetError.
bool are_encoded_images(const DatasetState& dataset);

/// Returns the finding "damaged" with the sentence `what`; `check` tells more about `file`. Blocks. Throws
/// FileError, DatasetError.
Fault damage_fault(const DatasetState& dataset, const std::string& file, const std::string& what);

/// Reads an epoch with the settings, and returns why that fails: "image_sizes" if it does not once all
/// encoded images are scaled to the size of the first, else "damaged". Empty if it does not fail. Blocks.
/// Throws Interrupted, FileError, DatasetError.
std::optional<Fault> reading_fault(const Examined& examined);

}  // namespace h5feed::cli
