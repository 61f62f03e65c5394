// SPDX-License-Identifier: Apache-2.0
// Labels written as text in a list of images: numbers or names of classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace h5feed::cli {

/// A label as its list gives it, without spaces around it.
struct LabelText {
  std::string_view text;
  std::string_view list;  ///< the file that lists it
  std::size_t line = 0;   ///< its line in that file, from 1 on
};

/// Labels as they are stored.
struct Labels {
  std::vector<std::int64_t> labels;      ///< one per text: a number, or an index of the vectors below
  std::vector<std::string> class_names;  ///< in alphabetical order; empty if the texts are numbers
  std::vector<double> values;            ///< one per text if some of the numbers have fractions; else empty
};

/// Interprets the texts: if all are integers, they are the labels; if all are numbers, some with fractions,
/// they are the values; if none is a number, they are names of classes. Throws FileError that names the line
/// if some are numbers and others are not, or if a number does not fit.
Labels labels_of(std::span<const LabelText> texts);

}  // namespace h5feed::cli
