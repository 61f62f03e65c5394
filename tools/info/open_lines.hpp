// SPDX-License-Identifier: Apache-2.0
// The lines of C++ and Python that open a dataset.
#pragma once

#include <string>

#include "h5feed/dataset.hpp"

namespace h5feed::cli {

// A way to read a file, in words, and the options that do so.
struct OpenReading {
  std::string what;
  DatasetOptions options;
  bool certain = true;  // the names of the datasets say so
};

// Returns two lines that open a dataset with the options that are not the default, in C++ and in Python.
// `shown` is the name of the file.
std::string lines_that_open(DatasetOptions options, const std::string& shown);

// Returns what the reading is, and the lines that open it.
std::string lines_of(const OpenReading& reading, const std::string& shown);

}  // namespace h5feed::cli
