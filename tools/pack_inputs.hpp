// The arrays that `pack` is given: NAME=FILE for IDX and NumPy files, GROUP=FILE for CIFAR's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/pack_source.hpp"
#include "tools/pack_space.hpp"

namespace h5feed::cli {

/// As typed, each option any number of times.
struct ArrayArguments {
  std::vector<std::string> idx, npy, cifar10, cifar100;

  bool empty() const noexcept { return idx.empty() && npy.empty() && cifar10.empty() && cifar100.empty(); }
};

/// One array of the output.
struct PackInput {
  std::string option;  ///< that named it
  std::string path;    ///< "/train/images"
  std::unique_ptr<ArraySource> source;
  SourceOpener open;  ///< gives `source` anew
};

/// Opens all arrays. Throws OptionError where a name is no path, two arrays share one or one lies within
/// another, or a file is `out` itself; DatasetError where labels and samples of one set differ in number
/// (tools/pack_pairs.hpp); FileError where a file is not what its option says.
std::vector<PackInput> open_arrays(const ArrayArguments& arguments, const std::string& out);

/// The path of a group, "/train" for "train"; empty for the root. Throws OptionError that names `option`.
std::string group_path(const std::string& option, const std::string& group);

}  // namespace h5feed::cli
