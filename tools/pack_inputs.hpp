// The arrays that `pack` is given, opened, and checked against each other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/pack_source.hpp"

namespace h5feed::cli {

/// As typed.
struct ArrayArguments {
  std::vector<std::string> idx, npy;           ///< NAME=FILE each
  std::vector<std::string> cifar10, cifar100;  ///< [GROUP=]FILE each

  bool empty() const noexcept { return idx.empty() && npy.empty() && cifar10.empty() && cifar100.empty(); }
};

/// One dataset to write.
struct ArrayInput {
  std::string option;  ///< that named it, such as "--idx"
  std::string path;    ///< "/train/images"
  std::unique_ptr<ArraySource> source;
};

/// Opens them; `out` is the file to write. Throws OptionError for names that are wrong, collide or mean
/// `out`, FileError for files that are not what the option takes, and DatasetError where an array called
/// labels has another number of rows than the images in its group.
std::vector<ArrayInput> open_arrays(const ArrayArguments& arguments, const std::string& out);

/// "train" as a path: "/train"; empty for an empty name. `option` named it. Throws OptionError.
std::string group_path(const std::string& option, const std::string& group);

}  // namespace h5feed::cli
