// SPDX-License-Identifier: Apache-2.0
// Helps the user choose among several datasets that look like images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "h5feed/dataset.hpp"
#include "store/hdf5/h5_file.hpp"

namespace h5feed::cli {

/// Opens a dataset for the program's `command`. If the user named no data and several datasets look like
/// images, the error text ends with the command to type, e.g.
/// ". Try: h5feed bench f.h5 --data train/images --target train/labels". Blocks. Throws the errors of
/// Dataset::open.
Dataset open_dataset(const DatasetOptions& options, std::string_view command);

/// Returns how usual a dataset's name is for labels: 0 for the most usual name; the same largest number for
/// all unusual names.
std::size_t label_rank(std::string_view path);

/// Finds what belongs to a dataset among all datasets of its file, for each in about the same time. Refers to
/// the datasets that it was made of, which must outlive it. Thread-safe.
class Companions {
 public:
  explicit Companions(const std::vector<DatasetEntry>& datasets);

  /// Returns the path of the labels of `images`: a dataset in the same group with one number for each of its
  /// rows; names such as labels, targets and y are preferred, and then the first one. Empty if there is none.
  std::string labels(const DatasetEntry& images) const;

  /// Returns the path of the table with the shape of each image of variable length, if its bytes are pixels:
  /// "/images_shapes" for "/images". Empty if there is none.
  std::string table_of_shapes(const DatasetEntry& images) const;

 private:
  struct Labels {
    std::string_view path;
    std::size_t rank;  // label_rank
  };
  std::map<std::pair<std::string_view, std::uint64_t>, Labels> labels_;  // By group and rows
  std::set<std::string_view> tables_;                                    // Paths
};

/// Returns whether a dataset holds numbers of a type that h5feed cannot read, such as long double. Such a
/// dataset is neither damaged nor text.
bool holds_unreadable_numbers(const DatasetEntry& entry);

/// Returns whether a dataset has a usual name for labels: labels, targets or y, for example.
bool named_as_labels(std::string_view path);

/// Returns why a dataset of the group that is named as labels cannot be the labels of `images`, e.g. "/labels
/// has 9 rows, not 10". Empty if it can, or if the group has no dataset so named.
std::string why_no_labels(const DatasetEntry& images, const std::vector<DatasetEntry>& datasets);

}  // namespace h5feed::cli
