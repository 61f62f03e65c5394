// SPDX-License-Identifier: Apache-2.0
// Settings of `bench`, shared by the command and the process that measures each row.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/dataset.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {

/// Settings of `bench`, most of them as typed. Their names, texts and JSON are in `dataset_fields` and
/// `loader_fields`.
struct BenchSettings {
  std::string file;
  std::string data;
  std::string target;
  std::string input_layout = "auto";
  TileText tiles;
  SampleText sample;
  std::optional<std::int64_t> batch_size = 256;  ///< unset: single samples
  std::string shuffle = "sequential";
  std::optional<std::uint64_t> cache_bytes;  ///< unset: the loader's default
  std::string cache_policy = "lru";
  std::optional<std::uint64_t> memory_budget_bytes;  ///< unset: the loader's default
  std::string on_error = "fail";
  double max_bad_share = 0.01;  ///< share of an epoch's samples, with `on_error` other than fail
  bool normalize = false;
  std::uint64_t seed = 0;
  std::uint64_t runs = 3;
  std::uint64_t warmup = 1;
  std::chrono::nanoseconds time_budget = std::chrono::seconds(3);  ///< time to spend on one row
};

/// One setting of `bench`: how it is typed on the command line, and its value in JSON.
struct BenchField {
  std::string key;       ///< key in JSON, such as "batch_size"
  std::string option;    ///< name on the command line, such as "--batch-size"
  std::string type;      ///< kind of the value as --help shows it, such as "N"; empty: a flag, or the file
  std::string help;      ///< description in --help
  bool is_path = false;  ///< whether the value is a path, which need not be UTF-8
  std::string default_text;  ///< default as typed; empty: none
  /// Sets the value from text as typed. Throws OptionError.
  std::function<void(BenchSettings& settings, const std::string& text)> parse;
  /// Returns the value as JSON.
  std::function<Json(const BenchSettings& settings)> value;
  /// Sets the value from JSON made by `value`.
  std::function<void(BenchSettings& settings, const Json& value)> set;
};

/// Returns the settings that say which samples are read, in the order of --help; the file is the first.
const std::vector<BenchField>& dataset_fields();
/// Returns the settings that say how the samples are loaded and measured, in the order of --help.
const std::vector<BenchField>& loader_fields();

/// Parses the text of every setting, by its key. Throws OptionError, and std::out_of_range if a text is
/// missing.
BenchSettings settings_from(const std::map<std::string, std::string>& texts);

/// Returns the settings as JSON, for the result and for the process of a row.
Json to_json(const BenchSettings& settings);

/// Returns a number of workers as it is typed: "2" or "auto".
std::string workers_text(std::int64_t num_workers);
/// Returns a number of workers in JSON: 2 or "auto".
Json workers_json(std::int64_t num_workers);
/// Converts JSON made by `workers_json` back.
std::int64_t workers_from(const Json& json);
/// Returns the threads that a row with this many workers decodes with: the usable cores for auto, at least 1.
std::int64_t decoding_threads(std::int64_t num_workers);

/// Request to the process that measures one row.
struct RowRequest {
  BenchSettings settings;
  std::int64_t num_workers = 0;
  bool quiet = false;         ///< suppress warnings that an earlier row has printed
  bool cold = false;          ///< drop the file's pages before each pass
  bool whole_epochs = false;  ///< cut an epoch only at the row's time limit, not at its share of the time
  std::int64_t rank = 0;
  std::int64_t world_size = 1;    ///< processes that share the samples; each gets its own request
  std::string shard = "strided";  ///< how samples are assigned to ranks
};

/// Converts a request to command-line arguments. Paths are separate arguments, not part of the JSON, since
/// they need not be UTF-8.
std::vector<std::string> to_arguments(const RowRequest& request);
/// Converts the arguments made by `to_arguments` back to a request.
RowRequest row_request_from(const std::vector<std::string>& arguments);

/// Converts the settings to the library's dataset options. Throws OptionError.
DatasetOptions dataset_options(const BenchSettings& settings);
/// Converts the settings to the library's loader options with `num_workers` workers. Throws OptionError.
DataLoaderOptions loader_options(const BenchSettings& settings, std::int64_t num_workers);
/// Converts a request to the library's loader options, with its workers and shard. Throws OptionError.
DataLoaderOptions loader_options(const RowRequest& request);

}  // namespace h5feed::cli
