// SPDX-License-Identifier: Apache-2.0
// Run of `tune` on a dataset: stores a sample of it in many ways and reads each.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tools/measure/time_budget.hpp"
#include "tools/tune/report.hpp"
#include "tools/tune/sample.hpp"

namespace h5feed::cli {

/// Dataset to tune, settings of the loader to tune it for, and candidates to try.
struct TuneSettings {
  std::string file;
  std::string data;  ///< empty: the only dataset that looks like images
  LoaderUse use;
  std::vector<std::uint64_t> chunk_rows = {};  ///< to try; empty: to be chosen
  std::vector<std::string> filters = {};       ///< to try; empty: to be chosen
  std::filesystem::path scratch = {};          ///< where the temporary file may lie
  unsigned cpus = 1;                           ///< usable cores
};

/// Finds out how fast each candidate feeds the loader, within the time of `budget`, which has begun: a sample
/// of the dataset is stored as the candidate says and read through the loader. What there is no time for is
/// predicted, then left out. Calls `announce` with one line that says what is to be done. Blocks. Throws
/// OptionError where the time is too short for a single prediction, FileError, also where the temporary file
/// cannot be written, DatasetError, and Interrupted.
TuneResult run_tune(TuneSettings settings, const TimeBudget& budget,
                    const std::function<void(const std::string&)>& announce);

}  // namespace h5feed::cli
