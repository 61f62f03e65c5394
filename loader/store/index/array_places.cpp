// SPDX-License-Identifier: Apache-2.0
#include "store/index/array_places.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "store/hdf5/object_tree.hpp"

namespace h5feed {
namespace {

using Extents = std::array<hsize_t, H5S_MAX_RANK>;

// The grid of chunks behind an extensible array.
struct ArrayGrid {
  std::size_t rank = 0;
  std::size_t unlimited = 0;  // The dimension without a limit
  Extents extent = {};        // In elements, as it is now
  Extents chunk = {};
  Extents most = {};  // Chunks along each dimension with a limit when it has grown to it
};

std::optional<ArrayGrid> array_grid(hid_t dataset) H5FEED_REQUIRES(hdf5_mutex) {
  H5D_chunk_index_t index = H5D_CHUNK_IDX_BTREE;
  if (H5Dget_chunk_index_type(dataset, &index) < 0 || index != H5D_CHUNK_IDX_EARRAY) return std::nullopt;
  const ScopedId space(H5Dget_space(dataset)), plist(H5Dget_create_plist(dataset));
  ArrayGrid grid;
  Extents limits = {};
  const int rank = H5Sget_simple_extent_dims(space.get(), grid.extent.data(), limits.data());
  if (rank <= 0 || H5Pget_chunk(plist.get(), rank, grid.chunk.data()) != rank) return std::nullopt;
  grid.rank = static_cast<std::size_t>(rank);
  for (std::size_t d = 0; d < grid.rank; ++d) {
    if (grid.chunk[d] == 0) return std::nullopt;
    if (limits[d] == H5S_UNLIMITED) grid.unlimited = d;
    grid.most[d] = limits[d] / grid.chunk[d] + (limits[d] % grid.chunk[d] == 0 ? 0 : 1);
    if (grid.most[d] == 0) return std::nullopt;
  }
  return grid;
}

// Replaces the offset at which libhdf5 lists a chunk by the one that it has.
void correct(std::span<hsize_t> offset, const ArrayGrid& grid) {
  // libhdf5 counts through the dimensions from the last one to the unlimited one, where it never ends.
  hsize_t number = 0;
  for (std::size_t d = grid.unlimited; d < grid.rank; ++d)
    number = number * (d == grid.unlimited ? 1 : grid.most[d]) + offset[d] / grid.chunk[d];
  for (std::size_t d = grid.rank; d-- > 0;) {
    if (d == grid.unlimited) continue;
    offset[d] = number % grid.most[d] * grid.chunk[d];
    number /= grid.most[d];
  }
  offset[grid.unlimited] = number * grid.chunk[grid.unlimited];
}

bool within(std::span<const hsize_t> offset, const ArrayGrid& grid) {
  return std::equal(offset.begin(), offset.end(), grid.extent.begin(), std::less<>());
}

bool stored(hid_t dataset, std::span<const hsize_t> offset) H5FEED_REQUIRES(hdf5_mutex) {
  hsize_t bytes = 0;
  return H5Dget_chunk_storage_size(dataset, offset.data(), &bytes) >= 0 && bytes > 0;
}

}  // namespace

bool lists_wrong_places(hid_t dataset) {
  const auto grid = array_grid(dataset);
  return grid && grid->unlimited > 0;
}

bool correct_places(hid_t dataset, std::span<hsize_t> offsets) {
  const auto grid = array_grid(dataset);
  if (!grid) return false;
  std::vector<hsize_t> corrected(offsets.begin(), offsets.end());
  // Counting wrongly, libhdf5 stays at 0 in the dimensions before the unlimited one.
  bool counted = true;
  for (std::size_t i = 0; i < offsets.size(); i += grid->rank) {
    const auto before = offsets.subspan(i, grid->unlimited);
    counted = counted && std::ranges::all_of(before, [](hsize_t start) { return start == 0; });
    correct(std::span(corrected).subspan(i, grid->rank), *grid);
  }
  // Those outside the extent cannot be looked for.
  const auto found = [&](std::span<const hsize_t> all) H5FEED_REQUIRES(hdf5_mutex) {
    for (std::size_t i = 0; i < all.size(); i += grid->rank) {
      const auto offset = all.subspan(i, grid->rank);
      if (within(offset, *grid) && !stored(dataset, offset)) return false;
    }
    return true;
  };
  if (!counted) return found(offsets);
  if (!found(corrected)) return found(offsets);
  std::ranges::copy(corrected, offsets.begin());
  return true;
}

}  // namespace h5feed
