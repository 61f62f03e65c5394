// The file that tools/gpu_check.sh writes: what was tested and measured on a GPU, in one JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace h5feed::bench {

using OrderedJson = nlohmann::ordered_json;

/// A figure of docs/results.md and what it is to be at least or at most.
struct Target {
  const char* name;     ///< of the row
  const char* what;     ///< for people
  const char* quality;  ///< "ratio" or "value"
  bool at_least;        ///< else at most
  double bound;
};

/// All rows that are to be shown, in the order of docs/results.md.
const std::vector<Target>& targets();

/// Where, with what and by which call: "commit", "device", "driver", "cuda", "command". An object.
using RunFacts = OrderedJson;

/// `result` (null: none yet) with the facts of this run, its tests (null: unchanged) and its rows. Rows of
/// the same name are replaced, unless the new one has no value. A result of another commit or device counts
/// as none. Rows of docs/results.md that nobody measured are added; those without a value that `rows` does
/// not name get `not_run` = `reason`.
OrderedJson merged(const OrderedJson& result, const RunFacts& facts, const OrderedJson& tests,
                   const OrderedJson& rows, const std::string& reason);

/// Names of docs/results.md without a value, joined by commas; empty where all are there.
std::string missing_names(const OrderedJson& result);

/// Aligned text with all rows, and the tests.
std::string table_text(const OrderedJson& result);

/// The table of docs/results.md; rows without a value are "not yet measured". `result` may be null.
std::string markdown(const OrderedJson& result);

}  // namespace h5feed::bench
