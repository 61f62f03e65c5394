// SPDX-License-Identifier: Apache-2.0
#include "tools/info/sparse.hpp"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "store/sparse/sparse_group.hpp"
#include "tools/program/output.hpp"
#include "tools/storage/isolated.hpp"

namespace h5feed::cli {
namespace {

constexpr std::string_view kRowTable = "/indptr";
constexpr std::string_view kCodes = "/codes";

// Returns a categorical column of the cells that looks like classes: the type of cell, else the first.
std::string classes_of(const H5File& file, const std::vector<DatasetEntry>& entries) {
  std::string first;
  for (const DatasetEntry& entry : entries) {
    if (!entry.path.starts_with("/obs/") || !entry.path.ends_with(kCodes)) continue;
    const std::string column = entry.path.substr(0, entry.path.size() - kCodes.size());
    if (!find_categorical(file, column)) continue;
    if (column.find("type") != std::string::npos) return column;
    if (first.empty()) first = column;
  }
  return first;
}

// Throws the error with which a loader refuses the matrix or its target, such as a table of rows that falls.
void check_opening(const H5File& file, const SparseGroup& group, DatasetOptions options) {
  // Opening reads the table of rows; a larger one would take seconds and much memory.
  constexpr std::uint64_t kLargestTable = 256 * kMiB;
  if (file.describe(group.indptr()).total_bytes() > kLargestTable) return;
  const ScopedLogSink quiet(ignore_log);
  options.files = {file.path()};
  Dataset::open(isolated(std::move(options)));
}

}  // namespace

SparseReadings sparse_readings(const std::shared_ptr<H5File>& file,
                               const std::vector<DatasetEntry>& entries) {
  SparseReadings found;
  std::optional<std::string> target;
  for (const DatasetEntry& entry : entries) {
    if (!entry.path.ends_with(kRowTable) || entry.path.size() == kRowTable.size()) continue;
    const std::string path = entry.path.substr(0, entry.path.size() - kRowTable.size());
    try {
      const std::optional<SparseGroup> group = find_sparse_group(*file, path);
      if (!group) continue;
      if (!target) target = classes_of(*file, entries);
      OpenReading reading{fmt::format("sparse rows, {} cells of {} genes", format_count(group->rows),
                                      format_count(group->columns)),
                          {.data = group->path, .target = *target}};
      check_opening(*file, *group, reading.options);
      found.readings.push_back(std::move(reading));
    } catch (const FileError&) {
      throw;
    } catch (const Error& error) {
      found.problems += fmt::format("{}\n", error.what());
    }
  }
  return found;
}

}  // namespace h5feed::cli
