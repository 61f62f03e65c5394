// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/sample_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/byte_units.hpp"
#include "store/filters/filters.hpp"
#include "store/format/chunk_geometry.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
std::optional<SampleCost> sample_cost(const DatasetInfo& info) {
  if (info.chunk_shape.empty() || info.total_bytes() == 0) return std::nullopt;
  SampleCost cost{.chunk_bytes = size_of(info.dtype)};
  for (const std::uint64_t extent : info.chunk_shape) cost.chunk_bytes *= extent;
  const std::vector<std::uint64_t> grid = chunk_grid(info.shape, info.chunk_shape);
  for (std::size_t d = 1; d < grid.size(); ++d) cost.chunks_per_sample *= grid[d];
  const double band_bytes =
      static_cast<double>(cost.chunks_per_sample) * static_cast<double>(cost.chunk_bytes);
  cost.decoded_per_wanted_random = band_bytes / static_cast<double>(info.row_bytes());
  cost.decoded_per_wanted_epoch =
      band_bytes * static_cast<double>(grid.front()) / static_cast<double>(info.total_bytes());
  return cost;
}

std::string repack_command(const DatasetInfo& info, std::string_view options) {
  const bool keeps_filters = options.find("--filter") == std::string_view::npos;
  const bool writable = std::ranges::all_of(info.filters, FilterPipeline::encodes);
  return fmt::format("h5feed repack {} NEW.h5 --dataset {} {}{}", shell_word(info.file),
                     shell_word(info.path), options,
                     keeps_filters && !writable ? " --filter shuffle+gzip:4" : "");
}

}  // namespace h5feed::cli
