// SPDX-License-Identifier: Apache-2.0
// The lines of C++ and Python that open samples.
#pragma once

#include <string>
#include <vector>

#include "h5feed/dataset.hpp"

namespace h5feed::cli {

/// A way to read a file by options that the command line of `bench` does not have all of.
struct FoundSamples {
  std::string what;  ///< "windows in 3 episodes"
  DatasetOptions options;
};

/// Returns a text as a literal of C++ and of Python.
std::string literal(const std::string& text);

/// Returns two lines, of C++ and of Python, that open a dataset with these options; its file is called
/// `shown` in them. Only options that differ from their defaults are part of the lines.
std::string lines_that_open(const DatasetOptions& options, const std::string& shown);

/// Returns what the samples are, each followed by the lines that open it.
std::string text_of(const std::vector<FoundSamples>& found, const std::string& shown);

}  // namespace h5feed::cli
