// SPDX-License-Identifier: Apache-2.0
// Findings of `doctor` about samples that cannot be read.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/error.hpp"
#include "tools/doctor/examined.hpp"
#include "tools/doctor/fault.hpp"
#include "tools/doctor/speed.hpp"

namespace h5feed::cli {

/// Returns whether the samples are encoded images; of several files, the first stands for all. Blocks. Throws
/// FileError, DatasetError.
bool are_encoded_images(const DatasetState& dataset);

/// Returns the finding "damaged" with the sentence `what`; `check` tells more about `file`. Blocks. Throws
/// FileError, DatasetError.
Fault damage_fault(const DatasetState& dataset, const std::string& file, const std::string& what);

/// Returns the finding "damaged" for a chunk that is read when the samples are opened, as one of labels, or
/// the first encoded image. The error names one of the `files`, which `check` then tells more about. Blocks.
/// Throws FileError, DatasetError.
Fault opening_fault(const std::vector<std::filesystem::path>& files, const BenchSettings& settings,
                    const ChunkError& error);

/// Returns the finding "unreadable" for a file that cannot be opened, whose mend is what the error advises.
Fault opening_fault(const FileError& error);

/// Returns the line of code that trains without the samples that cannot be read, with the `max_bad_share`
/// that they need. If they could not be counted until `deadline`, the line says which share is allowed. Empty
/// if none would be left, or none is damaged. Blocks. Throws Interrupted.
std::optional<std::string> skip_mend(const Examined& examined, Clock::time_point deadline);

/// Returns the finding for samples that cannot be read, and that the settings skip or replace: "damaged", and
/// serious only if all are. They are counted until `deadline`; later, those count that were met when the
/// `speed` was measured. Empty if there are none. Blocks. Throws Interrupted, FileError, DatasetError.
std::optional<Fault> skipped_fault(const Examined& examined, const Speed& speed, Clock::time_point deadline);

/// Reads an epoch with the settings, and returns why that fails: "image_sizes" if it does not once all
/// encoded images are scaled to the size of the first, else "damaged". Empty if it does not fail. Blocks.
/// Throws Interrupted, FileError, DatasetError.
std::optional<Fault> reading_fault(const Examined& examined);

}  // namespace h5feed::cli
