// SPDX-License-Identifier: Apache-2.0
// Which datasets of a file can be read as samples, and the options of `bench` that read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {

/// A way to read a file as samples.
struct SampleReading {
  std::string what;                       ///< "11 groups with 103 samples", "19 images of variable length"
  std::string data;                       ///< for --data: a path, or a pattern of paths
  std::string target;                     ///< for --target; empty: no dataset has as many rows
  std::string no_target = {};             ///< why `target` is empty although a dataset is named labels
  std::string note = {};                  ///< further options that may be needed; empty: none
  bool whole = false;                     ///< each dataset is one sample (--sample dataset)
  std::string image_shapes = {};          ///< for --image-shapes; empty: no table
  std::string input_layout = {};          ///< for --input-layout; empty: the shape determines it
  std::uint64_t tile_size = 0;            ///< for --tile-size; 0: whole samples
  std::vector<std::uint64_t> patch = {};  ///< for --tile-size: depth, height and width; empty: no volumes
  bool looks_like_images = false;         ///< with `patch`: the dataset may hold images instead
};

/// Returns the possible readings of the datasets in `entries`, those with the most samples first: arrays that
/// look like images, single images, images of variable length, volumes, rows of numbers, and datasets that
/// occur in many groups. Reads no data. Throws FileError.
std::vector<SampleReading> sample_readings(const H5File& file, const std::vector<DatasetEntry>& entries);

/// Returns the tile side in which to read images of this dataset, in whole chunks if its chunks divide the
/// images. Empty if the images are small enough to be samples, or if the dataset holds no images.
std::optional<std::uint64_t> suggested_tile(const DatasetInfo& info);

/// Returns the options for a command line, quoted for a shell where needed.
std::string option_text(const SampleReading& reading);

// Returns a reading for the list "reads_as" of the JSON output.
Json reading_json(const SampleReading& reading);

}  // namespace h5feed::cli
