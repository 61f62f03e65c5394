// SPDX-License-Identifier: Apache-2.0
#include "store/format/chunk_geometry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/byte_units.hpp"

namespace h5feed {
namespace {

std::size_t elements_behind(std::span<const std::uint64_t> shape, std::size_t dimension) noexcept {
  std::size_t elements = 1;
  for (std::size_t d = dimension + 1; d < shape.size(); ++d) elements *= shape[d];
  return elements;
}

template <std::size_t kBytes>
void copy_fixed_runs(std::uint64_t count, const std::byte* from, std::size_t from_step, std::byte* to,
                     std::size_t to_step) noexcept {
  for (std::uint64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, kBytes);
}

// Copies runs of bytes at regular distances; short runs, usually single elements, without a call of memcpy
// for each.
void copy_runs(std::uint64_t count, std::size_t bytes, const std::byte* from, std::size_t from_step,
               std::byte* to, std::size_t to_step) noexcept {
  switch (bytes) {
    case 1:
      return copy_fixed_runs<1>(count, from, from_step, to, to_step);
    case 2:
      return copy_fixed_runs<2>(count, from, from_step, to, to_step);
    case 4:
      return copy_fixed_runs<4>(count, from, from_step, to, to_step);
    case 8:
      return copy_fixed_runs<8>(count, from, from_step, to, to_step);
    default:
      for (std::uint64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, bytes);
  }
}

void copy_dimension(const BoxCopy& box, std::size_t dimension, const std::byte* from,
                    std::byte* to) noexcept {
  const std::size_t from_step = elements_behind(box.from_shape, dimension) * box.element_bytes;
  const std::size_t to_step = elements_behind(box.to_shape, dimension) * box.element_bytes;
  const std::size_t run = elements_behind(box.extent, dimension) * box.element_bytes;
  // Contiguous in both arrays: one copy for this dimension and all after it.
  if (run == from_step && run == to_step) {
    std::memcpy(to, from, run * box.extent[dimension]);
    return;
  }
  const std::size_t next = dimension + 1;
  const bool runs_contiguous = next == box.extent.size() ||
                               (elements_behind(box.extent, next) == elements_behind(box.from_shape, next) &&
                                elements_behind(box.extent, next) == elements_behind(box.to_shape, next));
  if (runs_contiguous) {
    copy_runs(box.extent[dimension], run, from, from_step, to, to_step);
    return;
  }
  for (std::uint64_t i = 0; i < box.extent[dimension]; ++i) {
    copy_dimension(box, next, from + i * from_step, to + i * to_step);
  }
}

}  // namespace

std::vector<std::uint64_t> chunk_grid(std::span<const std::uint64_t> shape,
                                      std::span<const std::uint64_t> chunk_shape) {
  std::vector<std::uint64_t> grid(shape.size());
  for (std::size_t d = 0; d < grid.size(); ++d) {
    grid[d] = shape[d] / chunk_shape[d] + (shape[d] % chunk_shape[d] != 0 ? 1 : 0);
  }
  return grid;
}

bool within_limit(std::span<const std::uint64_t> shape, std::size_t element_bytes) noexcept {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 62;
  std::uint64_t bytes = element_bytes;
  for (const std::uint64_t extent : shape) {
    if (extent > kMaxBytes / bytes) return false;
    bytes *= std::max<std::uint64_t>(extent, 1);
  }
  return true;
}

std::vector<std::uint64_t> chunk_coordinates(std::uint64_t chunk, std::span<const std::uint64_t> grid) {
  std::vector<std::uint64_t> coordinates(grid.size());
  for (std::size_t d = grid.size(); d-- > 0;) {
    coordinates[d] = chunk % grid[d];
    chunk /= grid[d];
  }
  return coordinates;
}

std::string describe_chunk_of(const DatasetInfo& info, std::span<const std::uint64_t> chunk_shape,
                              std::span<const std::uint64_t> grid, std::uint64_t chunk) {
  const std::vector<std::uint64_t> coordinates = chunk_coordinates(chunk, grid);
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  if (!coordinates.empty()) {
    first = coordinates.front() * chunk_shape.front();
    last = std::min(first + chunk_shape.front(), info.rows()) - 1;
  }
  const std::string samples =
      first == last ? fmt::format("sample {}", first) : fmt::format("samples {}-{}", first, last);
  return fmt::format("{}:{}: chunk ({}) ({})", info.file, short_path(info.path), fmt::join(coordinates, ","),
                     samples);
}

bool cut_by_extent(std::span<const std::uint64_t> coordinates, const DatasetInfo& info) noexcept {
  for (std::size_t d = 0; d < coordinates.size(); ++d) {
    if ((coordinates[d] + 1) * info.chunk_shape[d] > info.shape[d]) return true;
  }
  return false;
}

std::vector<std::uint64_t> rows_as_chunks(const DatasetInfo& info) {
  if (info.shape.empty()) return {};
  const std::uint64_t rows = std::max<std::uint64_t>(info.rows(), 1);
  std::vector<std::uint64_t> chunk;
  for (const std::uint64_t extent : info.shape) chunk.push_back(std::max<std::uint64_t>(extent, 1));
  chunk.front() = std::clamp<std::uint64_t>(kMiB / std::max<std::uint64_t>(info.row_bytes(), 1), 1, rows);
  return chunk;
}

void copy_box(const BoxCopy& box, const std::byte* from, std::byte* to) noexcept {
  if (std::find(box.extent.begin(), box.extent.end(), 0U) != box.extent.end()) return;
  if (box.extent.empty()) {
    std::memcpy(to, from, box.element_bytes);
  } else {
    copy_dimension(box, 0, from, to);
  }
}

void fill_with(std::span<const std::byte> element, std::span<std::byte> out) noexcept {
  const auto uniform = [&element](std::byte byte) { return byte == element.front(); };
  if (std::all_of(element.begin(), element.end(), uniform)) {
    if (!out.empty()) std::memset(out.data(), std::to_integer<int>(element.front()), out.size());
    return;
  }
  for (std::size_t done = 0; done < out.size(); done += element.size()) {
    std::memcpy(out.data() + done, element.data(), element.size());
  }
}

}  // namespace h5feed
