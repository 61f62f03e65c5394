// SPDX-License-Identifier: Apache-2.0
// `info --write-config`: a configuration file that reads the samples of a file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "h5feed/dataset.hpp"
#include "h5feed/options.hpp"
#include "tools/info/shapes.hpp"

namespace h5feed::cli {

/// Returns the options that open `file` by one of its readings.
DatasetOptions options_of(const SampleReading& reading, const std::string& file);

/// Returns the options of a loader to start from: batches of 256, `chunk:16` (`full` if the data has fewer
/// chunks), and the workers that the loader chooses itself.
DataLoaderOptions starting_options(const Dataset& dataset);

/// Writes the configuration that opens `file` by the `first_reading` of its readings, with the
/// `starting_options` of the loader. Replaces an earlier configuration. Throws DatasetError if there is no
/// reading, FileError, and OptionError for a path that is not UTF-8; and the errors of Dataset::open.
void write_sample_config(const std::filesystem::path& config, const std::string& file,
                         const std::vector<SampleReading>& readings);

}  // namespace h5feed::cli
