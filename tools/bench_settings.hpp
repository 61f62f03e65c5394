// What `bench` measures: the same settings for the command and for the process of each row.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "h5feed/data_loader.hpp"
#include "h5feed/dataset.hpp"
#include "tools/output.hpp"

namespace h5feed::cli {

struct BenchSettings {
  std::string file;
  std::string data;
  std::string target;
  std::string input_layout = "auto";
  std::int64_t batch_size = 256;
  std::string shuffle = "sequential";
  std::optional<std::uint64_t> cache_bytes;          ///< unset: the loader's default
  std::optional<std::uint64_t> memory_budget_bytes;  ///< unset: the loader's default
  bool normalize = false;
  std::uint64_t seed = 0;
  std::uint64_t runs = 3;
  std::uint64_t warmup = 1;
  std::chrono::nanoseconds time_budget = std::chrono::seconds(3);  ///< of one row
};

Json to_json(const BenchSettings& settings);
/// The inverse, for JSON that `to_json` made.
BenchSettings bench_settings_from(const Json& json);

/// What the settings mean to the library. Throw OptionError.
DatasetOptions dataset_options(const BenchSettings& settings);
DataLoaderOptions loader_options(const BenchSettings& settings, std::int64_t num_workers);

}  // namespace h5feed::cli
