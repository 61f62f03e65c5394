// SPDX-License-Identifier: Apache-2.0
// `bench --compare`: how the rows differ from those of an earlier run.
#pragma once

#include <string>

#include "tools/program/output.hpp"

namespace h5feed::cli {

/// Reads the JSON of an earlier run of `bench`. Throws FileError if the file cannot be read, OptionError if
/// it is not such a result.
Json read_result(const std::string& file);

/// Compares two results of `bench`: for each new row that has an earlier one with the same workers, pages and
/// swept settings, the ratio of the rates with its interval; and whatever else differs between the runs:
/// file, machine, load, version, commit and settings, with both values.
Json compare_results(const Json& earlier, const Json& now);

/// Returns the lines about a comparison that `compare_results` made with the result in `file`.
std::string comparison_text(const Json& comparison, const std::string& file);

}  // namespace h5feed::cli
