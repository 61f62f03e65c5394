// SPDX-License-Identifier: Apache-2.0
// Options of a dataset and of a loader as JSON, by their names in C++ and Python.
#pragma once

#include <concepts>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "h5feed/dataset.hpp"
#include "h5feed/mixture.hpp"
#include "h5feed/option_names.hpp"
#include "h5feed/options.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {

/// One set of a mixture, as `MixedSet`, before it is opened.
struct SetOptions {
  DatasetOptions dataset = {};
  double weight = 1;
  std::optional<Shuffle> shuffle = {};
};

/// The sets of a mixture, and its options.
struct MixtureOptions {
  std::vector<SetOptions> sets = {};
  EpochSize epoch_size = {};
};

/// Visits the options of a set, as the overload for `Normalize` does.
template <OptionsOf<SetOptions> Options, typename Visit>
void visit_options(Options& options, Visit visit) {
  visit("dataset", options.dataset);
  visit("weight", options.weight);
  visit("shuffle", options.shuffle);
}

/// Visits the options of a mixture, as the overload for `Normalize` does.
template <OptionsOf<MixtureOptions> Options, typename Visit>
void visit_options(Options& options, Visit visit) {
  visit("sets", options.sets);
  visit("epoch_size", options.epoch_size);
}

/// Contents of a configuration file.
struct Config {
  DatasetOptions dataset = {};
  std::optional<MixtureOptions> mixture = {};  ///< Excludes `dataset`
  DataLoaderOptions loader = {};
};

/// Returns the options that differ from their defaults. Sizes are in bytes, times in seconds; paths and names
/// keep their bytes, which need not be UTF-8.
Json options_json(const DatasetOptions& options);
/// Returns the options that differ from their defaults, as the overload for `DatasetOptions` does.
Json options_json(const DataLoaderOptions& options);
/// Returns the options that differ from their defaults, as the overload for `DatasetOptions` does.
Json options_json(const MixtureOptions& options);

/// Sets the options that a JSON object names, and leaves the others. `where` precedes the name of an option
/// in messages, such as "train.json: dataset". Throws OptionError for an unknown name, with those that exist,
/// and for a value of the wrong kind.
void read_options(const std::string& where, const Json& json, DatasetOptions& options);
/// Sets the options of a loader, as the overload for `DatasetOptions` does.
void read_options(const std::string& where, const Json& json, DataLoaderOptions& options);
/// Sets the options of a mixture, as the overload for `DatasetOptions` does.
void read_options(const std::string& where, const Json& json, MixtureOptions& options);

/// Returns whether the loader has an option of this name that is a value.
bool is_loader_option(const std::string& name);
/// Returns the names of all options of a dataset and of a loader that are values.
std::vector<std::string> option_names();

/// Reads a configuration file: {"dataset": {…}, "loader": {…}}, with the options of `DatasetOptions` and
/// `DataLoaderOptions` by name; either part may be missing. Instead of "dataset" there may be "mixture", with
/// a list of "sets", each a "dataset" with its "weight" and "shuffle", and the "epoch_size". Parts that are
/// missing keep the values of `defaults`. Throws FileError if the file cannot be read, OptionError if it is
/// not such JSON.
Config read_config(const std::filesystem::path& file, Config defaults);

/// Writes a configuration file with the options that differ from their defaults. Throws FileError, and
/// OptionError for a path that is not UTF-8, which JSON cannot hold.
void write_config(const std::filesystem::path& file, const DatasetOptions& dataset,
                  const DataLoaderOptions& loader);

/// Opens the sets, each by `open`, and mixes them. Throws the errors of `open` and of `mix`.
template <std::invocable<const DatasetOptions&> Open>
Dataset open_mixture(const MixtureOptions& options, const Open& open) {
  std::vector<MixedSet> sets;
  for (const SetOptions& set : options.sets) sets.push_back({open(set.dataset), set.weight, set.shuffle});
  return mix(sets, {.epoch_size = options.epoch_size});
}

}  // namespace h5feed::cli
