// SPDX-License-Identifier: Apache-2.0
#include "tools/info/sparse.hpp"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "store/sparse/sparse_group.hpp"

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
      found.readings.push_back({fmt::format("sparse rows, {} cells of {} genes", format_count(group->rows),
                                            format_count(group->columns)),
                                {.data = group->path, .target = *target}});
    } catch (const DatasetError& error) {
      found.problems += fmt::format("{}\n", error.what());
    }
  }
  return found;
}

}  // namespace h5feed::cli
