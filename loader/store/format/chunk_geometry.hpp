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

/// Returns the number of chunks along each dimension; the last chunk of a dimension may extend beyond the
/// dataset's edge.
std::vector<std::uint64_t> chunk_grid(std::span<const std::uint64_t> shape,
                                      std::span<const std::uint64_t> chunk_shape);

/// Returns whether an array takes at most 2^62 bytes, h5feed's limit. Every extent counts as at least 1, so
/// that an extent of zero does not hide an overflow of the others.
bool within_limit(std::span<const std::uint64_t> shape, std::size_t element_bytes) noexcept;

/// Returns the coordinates of chunk number `chunk` of a grid in row-major order.
std::vector<std::uint64_t> chunk_coordinates(std::uint64_t chunk, std::span<const std::uint64_t> grid);

/// Returns the text that identifies a chunk in messages: "train.h5:/images: chunk (12,0,0,0) (samples
/// 1200-1299)".
std::string describe_chunk_of(const DatasetInfo& info, std::span<const std::uint64_t> chunk_shape,
                              std::span<const std::uint64_t> grid, std::uint64_t chunk);

/// Returns whether the chunk at `coordinates` extends beyond the edge of the dataset.
bool cut_by_extent(std::span<const std::uint64_t> coordinates, const DatasetInfo& info) noexcept;

/// Returns the chunk shape for data that is not chunked: whole rows, about 1 MiB in total, at least one row.
std::vector<std::uint64_t> rows_as_chunks(const DatasetInfo& info);

/// Describes the copy of a box of elements from one row-major array to another.
struct BoxCopy {
  std::span<const std::uint64_t> extent;      ///< Elements of the box in each dimension
  std::span<const std::uint64_t> from_shape;  ///< Shape of the source array
  std::span<const std::uint64_t> to_shape;    ///< Shape of the destination array
  std::size_t element_bytes = 1;              ///< Bytes of one element
};

/// Copies a box of elements. `from` and `to` point at its first element in each array and do not overlap.
void copy_box(const BoxCopy& box, const std::byte* from, std::byte* to) noexcept;

/// Fills `out` with copies of `element`. `out.size()` must be a multiple of `element.size()`.
void fill_with(std::span<const std::byte> element, std::span<std::byte> out) noexcept;

}  // namespace h5feed
