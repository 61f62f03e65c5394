// SPDX-License-Identifier: Apache-2.0
// `info --write-config`: a configuration file that reads the samples of a file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/info/open_lines.hpp"
#include "tools/info/shapes.hpp"

namespace h5feed::cli {

/// Returns the options that open `file` by a reading.
DatasetOptions options_of(const SampleReading& reading, const std::string& file);

/// Returns what a configuration of a file opens: the first of `found`, samples that take more than a row each
/// (windows, sparse rows), else the first reading by patches of what does not look like images, else the
/// first reading. Throws DatasetError that names `file` if there is none.
FoundSamples samples_to_open(const std::string& file, const std::vector<FoundSamples>& found,
                             const std::vector<SampleReading>& readings);

/// Writes the configuration that opens these samples and says so, with the options of the loader to start
/// from: batches of 256 samples, or of as many as take 64 MiB if that is fewer, `chunk:16` (`full` if the
/// data has fewer chunks), and the workers that the loader chooses itself. Replaces an earlier configuration.
/// Throws FileError, OptionError for a path that is not UTF-8, and the errors of Dataset::open.
void write_sample_config(const std::filesystem::path& config, const FoundSamples& samples);

}  // namespace h5feed::cli
