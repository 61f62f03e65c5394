// SPDX-License-Identifier: Apache-2.0
// The binary files of CIFAR-10 and CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version").
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "tools/pack/source.hpp"

namespace h5feed::cli {

/// Kind of CIFAR records: one (CIFAR-10) or two (CIFAR-100) label bytes and 3,072 pixel bytes (red, green and
/// blue planes of 32 × 32).
enum class CifarKind : std::uint8_t { ten, hundred };

/// One part (images or labels) of the records of several files, concatenated.
struct CifarArray {
  std::string name;  ///< "images", "labels", "coarse_labels"
  std::unique_ptr<ArraySource> source;
};

/// Opens all parts of the records. Class names are read from the text files of the data set if they are in
/// the folder of the first file. Throws FileError if a file does not hold whole records of `kind`, or if
/// labels are out of range.
std::vector<CifarArray> open_cifar(const std::vector<std::filesystem::path>& files, CifarKind kind);

}  // namespace h5feed::cli
