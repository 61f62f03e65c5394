// What kinds of data set a file holds, and which options of `bench` read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/h5_file.hpp"

namespace h5feed::cli {

/// A way to read a file as samples.
struct SampleReading {
  std::string what;               ///< "11 groups with 103 samples", "19 images of variable length"
  std::string data;               ///< for --data: a path, or a pattern of paths
  std::string target;             ///< for --target; empty: nothing with as many rows
  std::string no_target = {};     ///< why `target` is empty although a dataset is called labels
  std::string note = {};          ///< what else may be needed; empty: nothing
  bool whole = false;             ///< --sample dataset: each dataset is one sample
  std::string image_shapes = {};  ///< for --image-shapes; empty: no table
  std::string input_layout = {};  ///< for --input-layout; empty: what the shape tells
  std::uint64_t tile_size = 0;    ///< for --tile-size; 0: whole samples
};

/// The readings of the datasets in `entries`, those with most samples first: arrays that look like images,
/// or one image, images of variable length, rows of numbers, and datasets that many groups have. Reads no
/// data. Throws FileError.
std::vector<SampleReading> sample_readings(const H5File& file, const std::vector<DatasetEntry>& entries);

/// Side of the tiles in which images of this dataset are best read, whole chunks where its chunks cut the
/// images; empty where they are small enough to be samples, or are no images.
std::optional<std::uint64_t> suggested_tile(const DatasetInfo& info);

/// The options for a command line, quoted where a shell would change them.
std::string option_text(const SampleReading& reading);

}  // namespace h5feed::cli
