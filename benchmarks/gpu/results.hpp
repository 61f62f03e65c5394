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
  bool with_torch = false;  ///< measured by gpu_benchmark_torch, else by gpu_benchmark
};

/// Returns all rows to show, in the order of docs/results.md.
const std::vector<Target>& targets();

/// Facts of a run, a JSON object of strings: "commit", "device", "driver", "cuda", "command" and others.
using RunFacts = OrderedJson;

/// Returns a row that has no value because of `why`.
OrderedJson row_without_value(const std::string& name, const std::string& why);

/// Returns `result` (null: none yet) with the facts of this run, its tests and its rows. A test, an outcome
/// by name, replaces that of the same name. So does a row, unless only the old one has a value. A result of
/// another commit or device is discarded. Adds the rows of docs/results.md that nobody has tried to measure;
/// these have "waiting" = true and `not_run` = `reason`.
OrderedJson merged(const OrderedJson& result, const RunFacts& facts, const OrderedJson& tests,
                   const OrderedJson& rows, const std::string& reason);

/// Returns those of `benchmarks`, each the names of its rows joined by commas, that lack a value in `result`.
/// Benchmarks that have never been tried come first, so that one that fails or hangs does not stop the others
/// again.
std::vector<std::string> missing(const OrderedJson& result, const std::vector<std::string>& benchmarks);
/// Returns the rows of docs/results.md that gpu_benchmark or, `with_torch`, gpu_benchmark_torch measures.
std::vector<std::string> rows_of(bool with_torch);

/// Returns all rows, and the tests, as aligned text.
std::string table_text(const OrderedJson& result);

/// Returns the table of docs/results.md; rows without a value are "not yet measured". `result` may be null.
std::string markdown(const OrderedJson& result);

}  // namespace h5feed::bench
