// SPDX-License-Identifier: Apache-2.0
// `info --write-config`: a configuration file that reads the samples of a file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "h5feed/dataset.hpp"
#include "h5feed/options.hpp"
#include "tools/info/open_lines.hpp"
#include "tools/info/shapes.hpp"

namespace h5feed::cli {

/// Returns the options that read a dataset in this way, without files.
DatasetOptions options_of(const SampleReading& reading);

/// Returns the options of the reading that says most about the file: windows, then sparse rows, then the
/// `first_reading` of the others; nullopt if there is none.
std::optional<DatasetOptions> best_reading(const std::optional<OpenReading>& episodes,
                                           const std::vector<OpenReading>& sparse,
                                           const std::vector<SampleReading>& readings);

/// Returns the options of a loader to start from: batches of 256, `chunk:16` (`full` if the data has fewer
/// chunks), and the workers that the loader chooses itself.
DataLoaderOptions starting_options(const Dataset& dataset);

/// Writes the configuration that opens `file` as `dataset`, with the `starting_options` of the loader.
/// Replaces an earlier configuration. Throws DatasetError if there is no `dataset`, FileError, and
/// OptionError for a path that is not UTF-8; and the errors of Dataset::open.
void write_sample_config(const std::filesystem::path& config, const std::string& file,
                         std::optional<DatasetOptions> dataset);

}  // namespace h5feed::cli
