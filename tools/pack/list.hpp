// SPDX-License-Identifier: Apache-2.0
// Lists the image files that `pack` takes, and their labels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace h5feed::cli {

/// One image file and its label.
struct ImageItem {
  std::filesystem::path file;
  std::int64_t label = 0;
};

/// Images of one group of the output: "train", or "" for the root.
struct ImageSet {
  std::string group;
  std::vector<ImageItem> items;
};

/// Image sets that share their classes.
struct ImageSets {
  std::vector<ImageSet> sets;
  std::vector<std::string> class_names;  ///< names of labels 0, 1, …; empty if the list gives numbers
  std::uint64_t ignored = 0;             ///< files in the folders that do not have an image's extension
};

/// Checks that `folders`, as `list_class_folders` takes them, are folders, and that `files`, as `list_csv`
/// takes them, are files that can be opened. Reads nothing. Throws FileError.
void check_image_sources(const std::vector<std::string>& folders, const std::vector<std::string>& files);

/// Lists folders that hold one folder per class, given as DIR or GROUP=DIR; images may be nested deeper.
/// Classes are numbered in the order of their names, over all folders together; images are in the order of
/// their paths. Throws FileError (no such folder, no image) and OptionError.
ImageSets list_class_folders(const std::vector<std::string>& folders);

/// Reads CSV files (RFC 4180) of path,label or path,label,group, given as FILE or GROUP=FILE, with or without
/// a header line. Paths are relative to the folder of the CSV file. If all labels are whole numbers from 0
/// on, they are kept; otherwise they are names, numbered in alphabetical order. Throws FileError that names
/// the line.
ImageSets list_csv(const std::vector<std::string>& files);

/// Splits "train=DIR" into {"train", "DIR"}; the name is empty if none is given.
std::pair<std::string, std::string> split_name(const std::string& argument);

}  // namespace h5feed::cli
