// SPDX-License-Identifier: Apache-2.0
// Text and JSON that `check` prints about the datasets of a file.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/format/dataset_info.hpp"
#include "store/hdf5/h5_file.hpp"
#include "tools/check/dataset.hpp"
#include "tools/program/output.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {

/// One dataset and the state of its check.
struct CheckEntry {
  std::filesystem::path file = {};  ///< the dataset's own file, where a link leads into another
  DatasetEntry listed = {};
  std::optional<DatasetInfo> info = {};            ///< set for numeric datasets
  std::uint64_t chunks = 0;                        ///< number of chunks, for numeric datasets
  std::string fallback_reason = {};                ///< why libhdf5 reads it; empty if h5feed does
  std::optional<CheckResult> result = {};          ///< empty if not checked
  std::string problem = {};                        ///< why it cannot be read at all; empty if it can
  std::shared_ptr<const ChunkReader> images = {};  ///< decodes encoded images; null for other datasets

  /// True if no checked part failed or differed; also for datasets that were not checked.
  bool clean() const noexcept { return problem.empty() && (!result || result->clean()); }
};

/// Returns an empty table wide enough for the entries, to be printed row by row. `file` is the one that was
/// named; datasets of others are shown with their file.
Table check_table(const std::string& file, const std::vector<CheckEntry>& entries);

/// Returns the table cells of one entry.
std::vector<std::string> check_cells(const std::string& file, const CheckEntry& entry);

/// Returns the first findings of one dataset, and how many of its chunks are affected.
std::vector<std::string> finding_lines(const CheckEntry& entry);

/// Returns whether there are chunks, but none was read because time ran out: nothing is known of them.
bool reached_nothing(const std::vector<CheckEntry>& entries);

/// Returns "train.h5: 2 datasets equal, 1 not checked; 1,203 of 1,203 chunks compared in 3.2 s" and, if only
/// a part was compared, what that proves.
std::string check_verdict(const std::string& file, const std::vector<CheckEntry>& entries, double seconds);

/// Returns the result as JSON. `sample` is the share of chunks that was to be compared.
Json check_json(const std::string& file, const std::vector<CheckEntry>& entries, double sample,
                double seconds);

}  // namespace h5feed::cli
