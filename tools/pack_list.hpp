// Which image files `pack` takes, and their labels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace h5feed::cli {

/// One image file.
struct ImageItem {
  std::filesystem::path file;
  std::int64_t label = 0;
};

/// Images of one group of the output: "train", or "" for the root.
struct ImageSet {
  std::string group;
  std::vector<ImageItem> items;
};

/// All sets share the classes.
struct ImageSets {
  std::vector<ImageSet> sets;
  std::vector<std::string> class_names;  ///< of the labels 0, 1, …; empty where the list gives numbers
  std::uint64_t ignored = 0;             ///< files in the folders that are no images by their names
};

/// Folders with one folder for each class, given as DIR or GROUP=DIR; images may lie deeper. Classes are
/// numbered in the order of their names, over all folders together; images keep the order of their paths.
/// Throws FileError (no such folder, no image) and OptionError.
ImageSets list_class_folders(const std::vector<std::string>& folders);

/// CSV files (RFC 4180) of path,label or path,label,group, given as FILE or GROUP=FILE, with or without a
/// line of column names. Paths count from the folder of the CSV file. Labels that are all whole numbers from
/// 0 on stay; others are names, numbered in their order. Throws FileError, naming the line.
ImageSets list_csv(const std::vector<std::string>& files);

/// "train=DIR" as {"train", "DIR"}; the name is empty where none is given.
std::pair<std::string, std::string> split_name(const std::string& argument);

}  // namespace h5feed::cli
