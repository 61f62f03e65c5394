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
  std::vector<double> label_values;      ///< what labels 0, 1, … stand for, if the list gives fractions
  std::uint64_t ignored = 0;             ///< files in the folders that do not have an image's extension
};

/// Throws OptionError if two `arguments` of `option`, given as PATH or GROUP=PATH, name the same file or
/// folder for the same group, however they spell it: its samples would be stored twice.
void refuse_repeated(const std::string& option, const std::vector<std::string>& arguments);

/// Checks that `folders`, as `list_class_folders` takes them, are folders, and that `files`, as `list_csv`
/// takes them, are files that can be opened. Reads nothing. Throws FileError, and OptionError for a source
/// that is named twice.
void check_image_sources(const std::vector<std::string>& folders, const std::vector<std::string>& files);

/// Lists folders that hold one folder per class, given as DIR or GROUP=DIR; images may be nested deeper.
/// Classes are numbered in the order of their names, over all folders together; images are in the order of
/// their paths. What has an image's name and is no regular file is listed too, and so is a link in the place
/// of a class that leads nowhere: reading it says what is wrong. Throws FileError (no such folder, no image)
/// and OptionError.
ImageSets list_class_folders(const std::vector<std::string>& folders);

/// Reads CSV files (RFC 4180) of path,label or path,label,group, given as FILE or GROUP=FILE, with or without
/// a header line and a UTF-8 byte order mark. Paths are relative to the folder of the CSV file. Labels that
/// are numbers are kept; names are numbered in alphabetical order, over all files together. Throws FileError
/// that names the line: no path or label, labels of both kinds.
ImageSets list_csv(const std::vector<std::string>& files);

/// Splits "train=DIR" into {"train", "DIR"}; the name is empty if none is given.
std::pair<std::string, std::string> split_name(const std::string& argument);

}  // namespace h5feed::cli
