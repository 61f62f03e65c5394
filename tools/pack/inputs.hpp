// SPDX-License-Identifier: Apache-2.0
// The arrays given to `pack`: NAME=FILE for IDX and NumPy files, GROUP=FILE for CIFAR files.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tools/pack/source.hpp"
#include "tools/pack/space.hpp"

namespace h5feed::cli {

/// Array options as typed, each any number of times.
struct ArrayArguments {
  std::vector<std::string> idx, npy, cifar10, cifar100;

  bool empty() const noexcept { return idx.empty() && npy.empty() && cifar10.empty() && cifar100.empty(); }
};

/// One array of the output.
struct PackInput {
  std::string option;  ///< option that named the array
  std::string path;    ///< "/train/images"
  std::unique_ptr<ArraySource> source;
  SourceOpener open;  ///< opens `source` again, at its first element
};

/// Opens all arrays. Throws OptionError if a name is not a valid path, if two arrays share a path or one is
/// within another, or if a file is `out` itself; DatasetError if labels and samples of one set differ in
/// number (tools/pack/pairs.hpp); FileError if a file does not have the format of its option.
std::vector<PackInput> open_arrays(const ArrayArguments& arguments, const std::string& out);

/// Throws OptionError if `input` is the file `out`, by whatever name: writing would destroy it.
void refuse_output(const std::filesystem::path& input, const std::string& out);

/// Returns the path of a group, "/train" for "train"; empty for the root. Throws OptionError that names
/// `option`.
std::string group_path(const std::string& option, const std::string& group);

}  // namespace h5feed::cli
