// SPDX-License-Identifier: Apache-2.0
// Arithmetic on chunk grids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "store/format/dataset_info.hpp"

namespace h5feed {

/// Chunks along each dimension: the last ones may reach over the edge.
std::vector<std::uint64_t> chunk_grid(std::span<const std::uint64_t> shape,
                                      std::span<const std::uint64_t> chunk_shape);

/// Coordinates of chunk number `chunk` of a grid in row-major order.
std::vector<std::uint64_t> chunk_coordinates(std::uint64_t chunk, std::span<const std::uint64_t> grid);

/// "train.h5:/images: chunk (12,0,0,0) (samples 1200-1299)" for a chunk of such a grid.
std::string describe_chunk_of(const DatasetInfo& info, std::span<const std::uint64_t> chunk_shape,
                              std::span<const std::uint64_t> grid, std::uint64_t chunk);

/// Whether the chunk at `coordinates` reaches over the edge of the dataset.
bool cut_by_extent(std::span<const std::uint64_t> coordinates, const DatasetInfo& info) noexcept;

/// Chunk extent of data that is not chunked: whole rows of about 1 MiB together, at least one row.
std::vector<std::uint64_t> rows_as_chunks(const DatasetInfo& info);

/// A box of elements within two row-major arrays.
struct BoxCopy {
  std::span<const std::uint64_t> extent;      ///< of the box; it starts at element 0 of `from` and `to`
  std::span<const std::uint64_t> from_shape;  ///< of the array that `from` lies in
  std::span<const std::uint64_t> to_shape;    ///< of the array that `to` lies in
  std::size_t element_bytes = 1;
};

/// Copies a box; `from` and `to` point at its first element in each array and do not overlap.
void copy_box(const BoxCopy& box, const std::byte* from, std::byte* to) noexcept;

/// Repeats `element` over `out`, whose size is a multiple of it.
void fill_with(std::span<const std::byte> element, std::span<std::byte> out) noexcept;

}  // namespace h5feed
