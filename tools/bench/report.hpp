// SPDX-License-Identifier: Apache-2.0
// Text that `bench` prints about its rows.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/program/output.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {

/// Formats samples/s for people: "6,420".
std::string rate_text(double value);

/// Formats a share for people: "94 %".
std::string percent_text(double share);

/// Formats a ratio as a change for people: "-4.8 %" for 0.952.
std::string percent_change(double ratio);

/// Returns an empty table with the columns of `bench`, wide enough to be printed row by row; with `swept`
/// also a last column of the settings that differ between the rows.
Table bench_table(bool swept = false);

/// Returns the swept settings of a row: "batch_size=64 shuffle=chunk:4"; empty if there are none.
std::string swept_text(const Json& row);

/// Returns what distinguishes a row: "num_workers=2", or "num_workers=2 batch_size=64" with swept settings.
std::string row_name(const Json& row);

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

/// Returns the row to recommend to a training that takes `samples_per_s`: among those whose slowest
/// repetition is as fast, the one with the least CPU time per sample; among equal ones the one with the least
/// memory. Empty if none is as fast.
std::optional<std::size_t> cheapest_row(const Json& rows, double samples_per_s);

/// Returns the sentence that names the cheapest row for a training that takes `samples_per_s`, or how far the
/// fastest row is from it and what to try.
std::string target_verdict(const Json& rows, double samples_per_s);

/// Returns a line that warns about other processes that kept the machine busy meanwhile; empty if none did.
std::string busy_warning(const Json& rows);

/// Returns a line that says why the rows have no limit to compare with; empty if they have one.
std::string limit_note(const Json& rows);

/// Returns the line that takes the place of `bench_verdict` where one batch was repeated.
std::string headroom_note();

/// Returns lines that warn about unreliable figures of a row: repetitions that differ much, that are short or
/// cover only part of an epoch, whose pages were neither all cold nor all
/// warm, or whose samples could not all be read. Empty otherwise.
std::string row_warnings(const Json& row);

}  // namespace h5feed::cli
