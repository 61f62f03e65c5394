// The binary files of CIFAR-10 and CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version").
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "tools/pack_source.hpp"

namespace h5feed::cli {

/// Records of one or two label bytes and 3,072 pixels (red, green and blue planes of 32 × 32).
enum class CifarKind : std::uint8_t { ten, hundred };

/// One part of the records of several files, one file after the other.
struct CifarArray {
  std::string name;  ///< "images", "labels", "coarse_labels"
  std::unique_ptr<ArraySource> source;
};

/// All parts. The names of classes are read from the text files that come with the set, where they lie
/// beside the first file. Throws FileError where a file does not hold whole records of `kind`, or where
/// labels are out of range.
std::vector<CifarArray> open_cifar(const std::vector<std::filesystem::path>& files, CifarKind kind);

}  // namespace h5feed::cli
