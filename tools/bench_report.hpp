// What `bench` tells people about its rows.
#pragma once

#include <string>
#include <vector>

#include "tools/output.hpp"
#include "tools/table.hpp"

namespace h5feed::cli {

/// "6,420": samples/s as people read them.
std::string rate_text(double value);

/// An empty table with the columns of `bench`, wide enough to be printed row by row.
Table bench_table();

/// The cells of one row, from its JSON.
std::vector<std::string> bench_cells(const Json& row);

/// The row to recommend: the fastest, or one with fewer workers that is as fast within 3 %. `rows` is
/// not empty.
const Json& best_row(const Json& rows);

/// "best: num_workers=4 (6,420 samples/s, 94 % of the decode limit)", one line each where warm and cold
/// rows were measured, and the line of code that follows from it. `shuffle` and `cache_policy` as the library
/// prints them.
std::string bench_verdict(const Json& rows, const std::string& shuffle,
                          const std::string& cache_policy = "lru");

/// Lines that say where a row's figures tell less than they seem to: repetitions that differ much, that
/// cover a part of an epoch only, or whose pages were neither all cold nor all warm. Empty otherwise.
std::string row_warnings(const Json& row);

}  // namespace h5feed::cli
