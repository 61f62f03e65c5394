// SPDX-License-Identifier: Apache-2.0
// Settings of `bench`, shared by the command and the process that measures each row.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/dataset.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/options_json.hpp"
#include "tools/program/output.hpp"

namespace CLI {
class App;
}

namespace h5feed::cli {

/// Settings of `bench`: the options of the library, and how long to measure.
struct BenchSettings {
  DatasetOptions dataset;
  std::optional<MixtureOptions> mixture;  ///< Instead of `dataset`
  DataLoaderOptions loader{.batch_size = 256, .seed = 0};
  std::uint64_t runs = 3;
  std::uint64_t warmup = 1;
  std::chrono::nanoseconds time_budget = std::chrono::seconds(3);  ///< time to spend on one row

  /// Returns the first file, as typed; empty if there is none.
  std::string file() const;
  /// Returns whether all samples are read from the file `file()`, so that its pages can be watched.
  bool reads_one_file() const;
};

/// Opens what the settings describe, a dataset or a mixture. Blocks. Throws the errors of Dataset::open and
/// mix.
Dataset open_samples(const BenchSettings& settings);

/// One setting of `bench` as it is typed on the command line.
struct BenchField {
  std::string key;     ///< name of the setting, such as "batch_size"
  std::string option;  ///< name on the command line, such as "--batch-size"
  std::string type;    ///< kind of the value as --help shows it, such as "N"; empty: a flag, or the file
  std::string help;    ///< description in --help
  std::string default_text = {};  ///< default as typed; empty: none
  bool repeats = false;  ///< whether the option may be given several times, and each adds to the others
  /// Sets the value from text as typed. Throws OptionError.
  std::function<void(BenchSettings& settings, const std::string& text)> parse = {};
};

/// Returns the settings that say which samples are read, in the order of --help; the file is the first.
const std::vector<BenchField>& dataset_fields();
/// Returns the settings that say how the samples are loaded and measured, in the order of --help.
const std::vector<BenchField>& loader_fields();

/// Texts of settings as typed, by key.
using SettingTexts = std::map<std::string, std::vector<std::string>>;

/// Parses the texts of the settings that were given, into `settings`. Throws OptionError.
BenchSettings settings_from(const SettingTexts& texts, BenchSettings settings = {});

/// Settings as typed on a command line.
struct TypedSettings {
  SettingTexts texts;            ///< Options of single settings, without those that were not given
  std::string config;            ///< Configuration file; empty: none
  std::vector<std::string> set;  ///< Options by name: "prefetch_factor=4"

  /// Adds the option of one setting to a command. `command` borrows this object.
  void add_option(CLI::App& command, const BenchField& field);
  /// Adds --config and --set. `command` borrows this object.
  void add_config_options(CLI::App& command);
  /// Call after parsing: drops the texts of options that were not given.
  void drop_empty();
  /// Returns these settings as words of a shell, the file first. Call after `drop_empty`.
  std::string words() const;
  /// Returns `settings`, overridden by the configuration, then by the texts, then by `set`. Throws FileError,
  /// OptionError.
  BenchSettings applied_to(BenchSettings settings) const;
};

/// Sets one setting by name, from text as typed: one of the command line, or any option of the dataset and
/// the loader, such as "prefetch_factor" and "4". `option` names the source in messages, such as "--set".
/// Throws OptionError.
void set_by_name(BenchSettings& settings, std::string_view option, const std::string& name,
                 const std::string& text);

/// Converts a value as typed to JSON: a number or other JSON, a size such as 64MiB, null for none, or text.
/// `where` names the option in messages. Throws OptionError for JSON that is nested too deep.
Json value_from_text(const std::string& where, const std::string& text);

/// Splits "batch_size=64" at its first "=". Throws OptionError that names `option` if there is none.
std::pair<std::string, std::string> name_and_value(std::string_view option, const std::string& text);

/// Returns the settings as JSON for the result, with all options that differ from the library's defaults.
Json to_json(const BenchSettings& settings);

/// Returns a number of workers as it is typed: "2" or "auto".
std::string workers_text(std::int64_t num_workers);
/// Returns a number of workers in JSON: 2 or "auto".
Json workers_json(std::int64_t num_workers);
/// Converts JSON made by `workers_json` back.
std::int64_t workers_from(const Json& json);
/// Returns a count that a result, perhaps of another program, has as any number: at most 9e18, and 0 if it is
/// a fraction below 0. Throws what nlohmann-json throws if it is no number.
std::uint64_t count_from(const Json& json);
/// Returns the threads that a row with this many workers decodes with: the usable cores for auto, at least 1.
std::int64_t decoding_threads(std::int64_t num_workers);

/// Request to the process that measures one row.
struct RowRequest {
  BenchSettings settings;
  std::int64_t num_workers = 0;
  bool quiet = false;         ///< suppress warnings that an earlier row has printed
  bool cold = false;          ///< drop the file's pages before each pass
  bool rate_only = false;     ///< measure neither limits nor cached epochs
  bool whole_epochs = false;  ///< cut an epoch only at the row's time limit, not at its share of the time
  std::int64_t rank = 0;
  std::int64_t world_size = 1;    ///< processes that share the samples; each gets its own request
  std::string shard = "strided";  ///< how samples are assigned to ranks
};

/// Converts a request to command-line arguments, in a form that keeps paths that are not UTF-8.
std::vector<std::string> to_arguments(const RowRequest& request);
/// Converts the arguments made by `to_arguments` back to a request.
RowRequest row_request_from(const std::vector<std::string>& arguments);

/// Returns the loader options with `num_workers` workers, of a single process.
DataLoaderOptions loader_options(const BenchSettings& settings, std::int64_t num_workers);
/// Converts a request to the library's loader options, with its workers and shard. Throws OptionError.
DataLoaderOptions loader_options(const RowRequest& request);

}  // namespace h5feed::cli
