// Help with choosing among several datasets that look like images.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "h5feed/dataset.hpp"
#include "store/h5_file.hpp"

namespace h5feed::cli {

/// Dataset::open for the program's `command`. Where no data was named and several datasets look like
/// images, the error goes on with what to type, e.g.
/// ". Try: h5feed bench f.h5 --data train/images --target train/labels". Throws as Dataset::open.
Dataset open_dataset(const DatasetOptions& options, std::string_view command);

/// How usual a dataset's name is for labels: 0 for the most usual one; a larger number the same for all
/// others.
std::size_t label_rank(std::string_view path);

/// The labels of `images`: a dataset in the same group with one number for each of its rows. One called
/// labels, targets or y is preferred. Empty where there is none.
std::string labels_beside(const DatasetEntry& images, const std::vector<DatasetEntry>& datasets);

/// Whether a dataset holds numbers of a type that h5feed cannot read, such as long double: it is not damaged,
/// and not text either.
bool holds_unreadable_numbers(const DatasetEntry& entry);

/// Whether a dataset is called labels, targets or y.
bool named_as_labels(std::string_view path);

/// Why `labels_beside` finds none although a dataset of the group is called so, e.g. "/labels has 9 rows, not
/// 10". Empty where none is, or where it fits.
std::string why_no_labels(const DatasetEntry& images, const std::vector<DatasetEntry>& datasets);

}  // namespace h5feed::cli
