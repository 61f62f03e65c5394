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
  std::uint64_t samples = 0;              ///< whole images if they are read in tiles; 1 for volumes
  std::vector<std::uint64_t> patch = {};  ///< for --tile-size: depth, height and width; empty: no volumes
};

/// Patches at random places that a volume is read by.
inline constexpr std::int64_t kPatchesPerVolume = 8;

/// Returns the possible readings of the datasets in `entries`, those with the most samples first, and of
/// equally many those with the largest: arrays that look like images, single images, images of variable
/// length, volumes, rows of numbers, and datasets that occur in many groups. Reads no data. Throws FileError.
std::vector<SampleReading> sample_readings(const H5File& file, const std::vector<DatasetEntry>& entries);

/// Returns whether a reading is of one dataset, row by row: not of those of many groups, nor of tiles.
bool is_plain(const SampleReading& reading);

/// Returns the reading to begin with, from at least one: the one with the most samples. A dataset with half
/// as many comes before those of many groups: they may be the training and the test set.
const SampleReading& first_reading(const std::vector<SampleReading>& readings);

/// Returns the tile side in which to read images of this dataset, in whole chunks if its chunks divide the
/// images. Empty if the images are small enough to be samples, or if the dataset holds no images.
std::optional<std::uint64_t> suggested_tile(const DatasetInfo& info);

/// Returns one line that says what the reading is, its options of the program, and what they leave open.
std::string line_of(const SampleReading& reading);

/// Returns the options for a command line, quoted for a shell where needed.
std::string option_text(const SampleReading& reading);

// Returns a reading for the list "reads_as" of the JSON output.
Json reading_json(const SampleReading& reading);

}  // namespace h5feed::cli
