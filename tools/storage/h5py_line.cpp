// SPDX-License-Identifier: Apache-2.0
#include "tools/storage/h5py_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "store/filters/filters.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {

std::string python_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string h5py_line(std::string_view path, std::string_view values, const std::vector<std::uint64_t>& chunk,
                      const std::vector<FilterSpec>& filters) {
  std::string options;
  for (const FilterSpec& filter : filters) options += ", " + h5py_arguments(filter);
  return fmt::format("out.create_dataset({}, data={}, chunks=({}{}){})", python_string(path), values,
                     fmt::join(chunk, ", "), chunk.size() == 1 ? "," : "", options);
}

}  // namespace h5feed::cli
