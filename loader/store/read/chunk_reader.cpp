// SPDX-License-Identifier: Apache-2.0
#include "store/read/chunk_reader.hpp"

#include <utility>

#include "store/format/chunk_geometry.hpp"
#include "store/read/joined_reader.hpp"

namespace h5feed {
namespace {

std::uint64_t product(const std::vector<std::uint64_t>& extents) noexcept {
  std::uint64_t result = 1;
  for (const std::uint64_t extent : extents) result *= extent;
  return result;
}

std::vector<std::uint64_t> row_grid(const std::vector<std::uint64_t>& shape,
                                    const std::vector<std::uint64_t>& chunk_shape, const RowLayout& rows) {
  std::vector<std::uint64_t> grid = chunk_grid(shape, chunk_shape);
  if (!grid.empty()) grid.front() = rows.num_chunks();
  return grid;
}

}  // namespace

ChunkReader::ChunkReader(DatasetInfo info, std::vector<std::uint64_t> chunk_shape)
    : ChunkReader(info, chunk_shape, RowLayout(info.rows(), chunk_shape.empty() ? 1 : chunk_shape.front())) {}

ChunkReader::ChunkReader(DatasetInfo info, std::vector<std::uint64_t> chunk_shape, RowLayout rows)
    : info_(std::move(info)),
      chunk_shape_(std::move(chunk_shape)),
      grid_(row_grid(info_.shape, chunk_shape_, rows)),
      rows_(std::move(rows)),
      num_chunks_(product(grid_)),
      chunk_bytes_(product(chunk_shape_) * size_of(info_.dtype)),
      max_stored_bytes_(chunk_bytes_) {}

std::vector<JoinedPart> ChunkReader::parts() const { return {}; }

std::string ChunkReader::describe_chunk(std::uint64_t chunk) const {
  return describe_chunk_of(info_, chunk_shape_, grid_, chunk);
}

}  // namespace h5feed
