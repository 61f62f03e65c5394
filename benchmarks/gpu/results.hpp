// SPDX-License-Identifier: Apache-2.0
// The result file of tools/gpu_check.sh: all tests and measurements of a GPU in one JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace h5feed::bench {

using OrderedJson = nlohmann::ordered_json;

/// A figure of docs/results.md and its lower or upper bound.
struct Target {
  const char* name;     ///< name of the row
  const char* what;     ///< description for people
  const char* quality;  ///< "ratio" or "value"
  bool at_least;        ///< `bound` is a minimum, else a maximum
  double bound;
};

/// Returns all rows to show, in the order of docs/results.md.
const std::vector<Target>& targets();

/// Facts of a run, a JSON object: "commit", "device", "driver", "cuda", "command".
using RunFacts = OrderedJson;

/// Returns `result` (null: none yet) with the facts of this run, its tests (null: unchanged) and its rows. A
/// row replaces the row of the same name, unless the new one has no value. A result of another commit or
/// device is discarded. Adds rows of docs/results.md that were never measured; those without a value that
/// `rows` does not name get `not_run` = `reason`.
OrderedJson merged(const OrderedJson& result, const RunFacts& facts, const OrderedJson& tests,
                   const OrderedJson& rows, const std::string& reason);

/// Returns the names of docs/results.md that have no value, joined by commas; empty if all have one.
std::string missing_names(const OrderedJson& result);

/// Returns all rows, and the tests, as aligned text.
std::string table_text(const OrderedJson& result);

/// Returns the table of docs/results.md; rows without a value are "not yet measured". `result` may be null.
std::string markdown(const OrderedJson& result);

}  // namespace h5feed::bench
