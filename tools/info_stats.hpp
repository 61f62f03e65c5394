// `info --stats`: which datasets are passed over, and what is printed and stored of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dataset/geometry.hpp"
#include "store/h5_file.hpp"
#include "tools/channel_stats.hpp"
#include "tools/output.hpp"

namespace h5feed::cli {

/// As typed.
struct StatsArguments {
  bool stats = false;
  bool write_attributes = false;
  std::string input_layout = "auto";
  std::string jobs;
};

/// Figures of one dataset.
struct StatsResult {
  DatasetInfo info;
  DatasetStats stats;
};

/// Passes over the dataset `only`, or over all that look like images; says beforehand what it will read.
/// Blocks. Throws DatasetError where none looks like images, OptionError, and as channel_stats.
std::vector<StatsResult> collect_stats(const std::shared_ptr<H5File>& file, const std::string& only,
                                       const StatsArguments& arguments);

/// A table of channels and the C++ lines to paste, for each dataset.
std::string stats_text(const std::vector<StatsResult>& results);
Json stats_json(const StatsResult& result);

/// Stores mean, std, min and max of each channel, in the unit of the stored values, as attributes of the
/// datasets. The file must not be open. Throws FileError.
void store_stats(const std::string& file, const std::vector<StatsResult>& results);

}  // namespace h5feed::cli
