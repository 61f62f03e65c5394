// SPDX-License-Identifier: Apache-2.0
// Options of a dataset and of a loader as JSON, by their names in C++ and Python.
#pragma once

#include <filesystem>
#include <string>

#include "h5feed/dataset.hpp"
#include "h5feed/options.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {

/// Returns the options that differ from their defaults. Sizes are in bytes, times in seconds; paths and names
/// keep their bytes, which need not be UTF-8.
Json options_json(const DatasetOptions& options);
/// Returns the options that differ from their defaults, as the overload for `DatasetOptions` does.
Json options_json(const DataLoaderOptions& options);

/// Sets the options that a JSON object names, and leaves the others. `where` precedes the name of an option
/// in messages, such as "train.json: dataset". Throws OptionError for an unknown name, with those that exist,
/// and for a value of the wrong kind.
void read_options(const std::string& where, const Json& json, DatasetOptions& options);
/// Sets the options of a loader, as the overload for `DatasetOptions` does.
void read_options(const std::string& where, const Json& json, DataLoaderOptions& options);

/// Returns whether the loader has an option of this name that is a value.
bool is_loader_option(const std::string& name);

/// Reads a configuration file: {"dataset": {…}, "loader": {…}}, with the options of `DatasetOptions` and
/// `DataLoaderOptions` by name; either part may be missing. Throws FileError if the file cannot be read,
/// OptionError if it is not such JSON.
void read_config(const std::filesystem::path& file, DatasetOptions& dataset, DataLoaderOptions& loader);

/// Writes a configuration file with the options that differ from their defaults. Throws FileError, and
/// OptionError for a path that is not UTF-8, which JSON cannot hold.
void write_config(const std::filesystem::path& file, const DatasetOptions& dataset,
                  const DataLoaderOptions& loader);

}  // namespace h5feed::cli
