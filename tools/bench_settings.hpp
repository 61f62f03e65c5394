// What `bench` measures: the same settings for the command and for the process of each row.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/dataset.hpp"
#include "tools/option_text.hpp"
#include "tools/output.hpp"

namespace h5feed::cli {

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
  bool normalize = false;
  std::uint64_t seed = 0;
  std::uint64_t runs = 3;
  std::uint64_t warmup = 1;
  std::chrono::nanoseconds time_budget = std::chrono::seconds(3);  ///< of one row
};

Json to_json(const BenchSettings& settings);

/// What a row's process is asked.
struct RowRequest {
  BenchSettings settings;
  std::int64_t num_workers = 0;
  bool quiet = false;         ///< warnings have been printed by an earlier row
  bool cold = false;          ///< the file's pages are dropped before each pass
  bool whole_epochs = false;  ///< an epoch is not cut at its share of the time, only at the row's limit
  std::int64_t rank = 0;
  std::int64_t world_size = 1;    ///< processes that share the samples; each is asked for its rank
  std::string shard = "strided";  ///< how
};

/// A request as command-line arguments, and back. Paths travel beside the JSON, since they need not be
/// UTF-8.
std::vector<std::string> to_arguments(const RowRequest& request);
RowRequest row_request_from(const std::vector<std::string>& arguments);

/// What the settings mean to the library. Throw OptionError.
DatasetOptions dataset_options(const BenchSettings& settings);
DataLoaderOptions loader_options(const BenchSettings& settings, std::int64_t num_workers);
DataLoaderOptions loader_options(const RowRequest& request);

}  // namespace h5feed::cli
