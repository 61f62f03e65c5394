// SPDX-License-Identifier: Apache-2.0
// The rows of `bench`: one for each setting that is measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/settings.hpp"
#include "tools/program/output.hpp"
#include "tools/program/progress.hpp"

namespace h5feed::cli {

/// Values of one setting, each of which is measured.
struct Sweep {
  std::string name;
  std::vector<std::string> values;  ///< as typed; at least one
};

/// Parses "batch_size=64,256". Throws OptionError that names `option`.
Sweep parse_sweep(const std::string& option, const std::string& text);

/// Arguments of `bench` for its rows.
struct RowsRequest {
  BenchSettings settings;
  std::vector<std::int64_t> num_workers;  ///< at least one
  std::vector<Sweep> sweeps;              ///< all combinations are measured
  bool cold = false;                      ///< drop the file's pages before each pass
  bool warm = false;                      ///< keep the file's pages; with `cold`: rows of both kinds
  bool rate_only = false;                 ///< measure neither limits nor cached epochs
  std::optional<double> target_rate;      ///< samples/s that a training needs
  std::string compare_file;               ///< JSON of an earlier run; empty: none
};

/// Answer of the process that measured one row.
struct RowOutcome {
  int exit_code = 0;  ///< If not 0, the process has already printed the error
  Json answer;        ///< "row", "limits" and "resolved"
};

/// Measures one row in a process of its own. Blocks. Throws Error if a signal ended the process, and
/// Interrupted.
RowOutcome measure_row(const RowRequest& request, Progress& progress);

/// Measures the rows, each in its own process; prints them, what is unreliable about them, which is best, and
/// what `compare_file` and `target_rate` ask for; exports them after each row. Returns the exit code. Blocks.
/// Throws OptionError, FileError, and the errors of Dataset::open.
int bench_rows(const RowsRequest& request, const OutputOptions& output);

}  // namespace h5feed::cli
