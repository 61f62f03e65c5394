// SPDX-License-Identifier: Apache-2.0
// Text that `bench` prints about its rows.
#pragma once

#include <string>
#include <vector>

#include "tools/program/output.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {

/// Formats samples/s for people: "6,420".
std::string rate_text(double value);

/// Returns an empty table with the columns of `bench`, wide enough to be printed row by row.
Table bench_table();

/// Returns the table cells of one row from its JSON.
std::vector<std::string> bench_cells(const Json& row);

/// Returns the row to recommend: among the rows within 3 % of the fastest, the one with the fewest workers.
/// `rows` must not be empty.
const Json& best_row(const Json& rows);

/// Returns "best: num_workers=4 (6,420 samples/s, 94 % of the decode limit)", one line each for warm and cold
/// rows if both were measured, and the line of code that sets the recommended options. `shuffle`,
/// `cache_policy` and `on_error` are spelled as the library prints them.
std::string bench_verdict(const Json& rows, const std::string& shuffle,
                          const std::string& cache_policy = "lru", const std::string& on_error = "fail");

/// Returns lines that warn about unreliable figures of a row: repetitions that differ much, that cover only
/// part of an epoch, whose pages were neither all cold nor all warm, or whose samples could not all be read.
/// Empty otherwise.
std::string row_warnings(const Json& row);

}  // namespace h5feed::cli
