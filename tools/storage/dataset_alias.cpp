// SPDX-License-Identifier: Apache-2.0
#include "tools/storage/dataset_alias.hpp"

#include <algorithm>
#include <cstdint>

#include "store/write/object_copy.hpp"

namespace h5feed::cli {

DatasetEntry* entry_of(const H5File& file, std::vector<DatasetEntry>& entries, const std::string& path) {
  const auto same_name = std::find_if(entries.begin(), entries.end(),
                                      [&](const DatasetEntry& entry) { return entry.path == path; });
  if (same_name != entries.end()) return &*same_name;
  std::vector<std::string> paths = {path};
  for (const DatasetEntry& entry : entries) paths.push_back(entry.path);
  const std::vector<std::uint64_t> numbers = object_numbers(file, paths);
  const auto found = std::find(numbers.begin() + 1, numbers.end(), numbers.front());
  return found == numbers.end() ? nullptr : &entries[static_cast<std::size_t>(found - numbers.begin() - 1)];
}

}  // namespace h5feed::cli
