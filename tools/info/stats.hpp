// SPDX-License-Identifier: Apache-2.0
// `info --stats`: chooses the datasets, and prints and stores their statistics.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dataset/geometry.hpp"
#include "store/hdf5/h5_file.hpp"
#include "tools/program/output.hpp"
#include "tools/storage/channel_stats.hpp"

namespace h5feed::cli {

/// Options of `info --stats` as typed.
struct StatsArguments {
  bool stats = false;
  bool write_attributes = false;
  bool force = false;
  std::string input_layout = "auto";
  std::string jobs;
};

/// Throws OptionError if an option has no meaning without another, or names no layout.
void check_stats_options(const StatsArguments& arguments);

/// Statistics of one dataset.
struct StatsResult {
  DatasetInfo info;
  DatasetStats stats;
};

/// Computes the statistics of the dataset `only`, or of all that look like images if `only` is empty;
/// announces what it will read. Blocks. Throws DatasetError if no dataset looks like images, OptionError, and
/// the errors of channel_stats.
std::vector<StatsResult> collect_stats(const std::shared_ptr<H5File>& file, const std::string& only,
                                       const StatsArguments& arguments);

/// Returns, for each dataset, a table of channels and the C++ lines to paste.
std::string stats_text(const std::vector<StatsResult>& results);
/// Returns the statistics of one dataset as JSON.
Json stats_json(const StatsResult& result);

/// Stores mean, std, min and max of each channel, in the unit of the stored values, as attributes of the
/// datasets. A signal to this process does not cut that off (`run_sheltered`). The file must not be open.
/// Throws FileError; unless `force`, also if one of the datasets has such an attribute with other contents,
/// and then nothing is written.
void store_stats(const std::string& file, const std::vector<StatsResult>& results, bool force);

}  // namespace h5feed::cli
