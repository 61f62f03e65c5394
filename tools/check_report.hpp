// What `check` tells about the datasets of a file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/dataset_info.hpp"
#include "store/h5_file.hpp"
#include "tools/check_dataset.hpp"
#include "tools/output.hpp"
#include "tools/table.hpp"

namespace h5feed::cli {

/// One dataset and how far its check came.
struct CheckEntry {
  DatasetEntry listed;
  std::optional<DatasetInfo> info = {};    ///< numeric ones
  std::uint64_t chunks = 0;                ///< of numeric ones
  std::string fallback_reason = {};        ///< why libhdf5 reads it; empty: h5feed does
  std::optional<CheckResult> result = {};  ///< empty: not checked
  std::string problem = {};                ///< why it cannot be read at all

  /// Nothing that was looked at failed or differed.
  bool clean() const noexcept { return problem.empty() && (!result || result->clean()); }
};

/// An empty table wide enough for the entries, to be printed row by row.
Table check_table(const std::vector<CheckEntry>& entries);

std::vector<std::string> check_cells(const CheckEntry& entry);

/// What is wrong with one dataset: its first findings, and how many chunks there are altogether.
std::vector<std::string> finding_lines(const CheckEntry& entry, const std::string& file);

/// Whether there are chunks, none of which was read, since the time was over: nothing is known of them.
bool reached_nothing(const std::vector<CheckEntry>& entries);

/// "train.h5: 2 datasets equal, 1 not checked; 1,203 of 1,203 chunks compared in 3.2 s" and, where only a
/// part was compared, what that proves.
std::string check_verdict(const std::string& file, const std::vector<CheckEntry>& entries, double seconds);

Json check_json(const std::string& file, const std::vector<CheckEntry>& entries, double sample,
                double seconds);

}  // namespace h5feed::cli
