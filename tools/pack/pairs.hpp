// SPDX-License-Identifier: Apache-2.0
// Which of the arrays that `pack` is given belong together, by their names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace h5feed::cli {

/// An array as far as pairing looks at it.
struct NamedArray {
  std::string option;                ///< that named it: "--npy"
  std::string path;                  ///< "/x_train"
  std::vector<std::uint64_t> shape;  ///< at least one dimension
};

/// Labels without a sample, or samples without a label, would show only where the file is read, or never.
/// Two arrays are a pair where their paths are equal but for one word, which means samples in the one (x,
/// data, images, inputs, features, …) and labels in the other (y, target, labels, …): /x_train and /y_train,
/// /train/images and /train/labels, /valSetX and /valSetY. The samples have at least two dimensions, the
/// labels any number. Labels that are called just so also belong to any array of their group with at least
/// two dimensions, if it is not labels as well. Throws DatasetError that names both where labels belong to
/// something, and to nothing with as many rows.
void check_pairs(std::span<const NamedArray> arrays);

}  // namespace h5feed::cli
