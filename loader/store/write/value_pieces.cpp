// SPDX-License-Identifier: Apache-2.0
#include "store/write/value_pieces.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

#include "base/byte_units.hpp"
#include "store/index/array_places.hpp"
#include "store/write/stored_values.hpp"

namespace h5feed {
namespace {

// Size of the values read at a time, with what they refer to; at least one row is read.
constexpr std::size_t kPieceBytes = 4 * kMiB;
constexpr std::size_t kFirstElements = 64;

// Counts the memory that libhdf5 takes for values of variable length.
class VariableBytes {
 public:
  VariableBytes() : list_(H5Pcreate(H5P_DATASET_XFER)) {
    H5Pset_vlen_mem_manager(list_.get(), take, &bytes_, give, nullptr);
  }
  VariableBytes(const VariableBytes&) = delete;
  VariableBytes& operator=(const VariableBytes&) = delete;

  /// Properties of the H5Dread calls that count.
  hid_t list() const noexcept { return list_.get(); }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  // libhdf5 uses malloc and free by default, by which Reclaim gives the memory back.
  static void* take(std::size_t bytes, void* sum) {
    *static_cast<std::uint64_t*>(sum) += bytes;
    return std::malloc(bytes);
  }
  static void give(void* memory, void*) { std::free(memory); }

  const ScopedId list_;
  std::uint64_t bytes_ = 0;
};

using Extents = std::array<hsize_t, H5S_MAX_RANK>;

constexpr const char* kNoChunks = "its chunks cannot be listed";

// A part of a dataset: where it begins, and how large it is.
struct Box {
  Extents start = {};
  Extents count = {};
};

// A dataset that is read, with its chunk grid.
struct Chunked {
  hid_t dataset;
  hid_t space;
  std::size_t rank;
  const Extents& extent;
  Extents chunk = {};
  hsize_t stored = 0;     // Chunks
  hsize_t positions = 1;  // Of chunks, stored or not; the most that the type holds where there are more
};

Chunked chunked(hid_t dataset, hid_t space, const H5::DSetCreatPropList& plist, std::size_t rank,
                const Extents& extent, const Hdf5Calls& calls, const std::string& path)
    H5FEED_REQUIRES(hdf5_mutex) {
  Chunked all{.dataset = dataset, .space = space, .rank = rank, .extent = extent};
  plist.getChunk(static_cast<int>(rank), all.chunk.data());
  calls.done(H5Dget_num_chunks(dataset, space, &all.stored), path, kNoChunks);
  for (std::size_t i = 0; i < rank; ++i) {
    const hsize_t along = extent[i] / all.chunk[i] + (extent[i] % all.chunk[i] == 0 ? 0 : 1);
    if (__builtin_mul_overflow(all.positions, along, &all.positions))
      all.positions = std::numeric_limits<hsize_t>::max();
  }
  return all;
}

// The chunk that begins at `start`, within the extent.
Box box_at(const Extents& start, const Chunked& all) {
  Box box{start, {}};
  for (std::size_t i = 0; i < all.rank; ++i) box.count[i] = std::min(all.chunk[i], all.extent[i] - start[i]);
  return box;
}

// Calls `visit` with the stored chunks, asking libhdf5 for each place where one may be.
void visit_positions(const Chunked& all, const std::function<void(const Box&)>& visit)
    H5FEED_REQUIRES(hdf5_mutex) {
  for (Extents start = {}; start[0] < all.extent[0];) {
    hsize_t stored_bytes = 0;
    if (H5Dget_chunk_storage_size(all.dataset, start.data(), &stored_bytes) >= 0 && stored_bytes > 0)
      visit(box_at(start, all));
    for (std::size_t i = all.rank; i-- > 0;) {
      start[i] += all.chunk[i];
      if (start[i] < all.extent[i] || i == 0) break;
      start[i] = 0;
    }
  }
}

// Calls `visit` with the stored chunks, asking libhdf5 for each. An old library may have left some outside
// the extent.
void visit_entries(const Chunked& all, const Hdf5Calls& calls, const std::string& path,
                   const std::function<void(const Box&)>& visit) H5FEED_REQUIRES(hdf5_mutex) {
  std::vector<hsize_t> offsets;
  for (hsize_t i = 0; i < all.stored; ++i) {
    Extents start = {};
    unsigned filter_mask = 0;
    haddr_t address = 0;
    hsize_t bytes = 0;
    calls.done(H5Dget_chunk_info(all.dataset, all.space, i, start.data(), &filter_mask, &address, &bytes),
               path, kNoChunks);
    offsets.insert(offsets.end(), start.begin(), start.begin() + static_cast<std::ptrdiff_t>(all.rank));
  }
  if (lists_wrong_places(all.dataset) && !correct_places(all.dataset, offsets))
    calls.done(-1, path, kNoChunks);
  std::vector<Extents> starts;
  for (auto offset = offsets.begin(); offset != offsets.end();) {
    Extents start = {};
    const auto end = offset + static_cast<std::ptrdiff_t>(all.rank);
    std::copy(offset, end, start.begin());
    if (std::equal(offset, end, all.extent.begin(), std::less<>())) starts.push_back(start);
    offset = end;
  }
  std::ranges::sort(starts);
  for (const Extents& start : starts) visit(box_at(start, all));
}

// Calls `visit` with the parts of a dataset that are stored, in row-major order. The rest is left out, so
// that a copy does not store it either; where a fill value stands for values of variable length, libhdf5 1.10
// cannot read them in a file that is open for reading.
void visit_boxes(hid_t dataset, hid_t space, hid_t type, const Hdf5Calls& calls, const std::string& path,
                 std::size_t rank, const Extents& extent, const std::function<void(const Box&)>& visit)
    H5FEED_REQUIRES(hdf5_mutex) {
  const H5::DSetCreatPropList plist(
      calls.id(H5Dget_create_plist(dataset), path, "its properties cannot be read").get());
  if (plist.getLayout() != H5D_CHUNKED) {
    if (H5Dget_storage_size(dataset) > 0) visit({{}, extent});
    return;
  }
  const Chunked all = chunked(dataset, space, plist, rank, extent, calls, path);
  if (all.stored == all.positions && !value_shape(type, calls, path).has_variable) {
    visit({{}, extent});
    return;
  }
  // For each entry libhdf5 goes over those before it, which is about this much faster than to look for one.
  constexpr hsize_t kEntriesPerLookup = 64;
  const bool few = all.stored == 0 || all.stored / kEntriesPerLookup < all.positions / all.stored;
  few ? visit_entries(all, calls, path, visit) : visit_positions(all, visit);
}

}  // namespace

bool stores_all_chunks(hid_t dataset, const H5::DSetCreatPropList& plist, const Hdf5Calls& calls,
                       const std::string& path) {
  const ScopedId space = calls.id(H5Dget_space(dataset), path, kNoExtent);
  Extents extent = {};
  const int rank =
      calls.done(H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr), path, kNoExtent);
  const Chunked all =
      chunked(dataset, space.get(), plist, static_cast<std::size_t>(rank), extent, calls, path);
  return all.stored >= all.positions;
}

void read_in_pieces(hid_t dataset, hid_t type, const Hdf5Calls& calls, const std::string& path,
                    const std::function<void(std::span<std::byte>, std::size_t, hid_t, hid_t)>& use) {
  const ScopedId file_space = calls.id(H5Dget_space(dataset), path, kNoExtent);
  const hssize_t points = H5Sget_simple_extent_npoints(file_space.get());
  if (H5Sget_simple_extent_type(file_space.get()) == H5S_NULL || points <= 0) return;
  Extents extent = {};
  const auto rank = static_cast<std::size_t>(
      calls.done(H5Sget_simple_extent_dims(file_space.get(), extent.data(), nullptr), path, kNoExtent));
  if (rank == 0) extent[0] = 1;
  const std::size_t element_bytes = H5Tget_size(type);
  VariableBytes variable;
  // Few at first, until it is known how large what they refer to is.
  std::size_t next_elements = kFirstElements;
  // The selection in the space that pieces use changes while the chunks are visited.
  const ScopedId whole = calls.id(H5Scopy(file_space.get()), path, kNoExtent);
  const auto read_box = [&](const Box& box) H5FEED_REQUIRES(hdf5_mutex) {
    std::size_t row_elements = 1;
    for (std::size_t i = 1; i < rank; ++i) row_elements *= static_cast<std::size_t>(box.count[i]);
    for (hsize_t first = 0, count = 0; first < box.count[0]; first += count) {
      count = std::clamp<hsize_t>(next_elements / row_elements, 1, box.count[0] - first);
      const std::size_t elements = static_cast<std::size_t>(count) * row_elements;
      const auto flat = static_cast<hsize_t>(elements);
      const ScopedId memory_space = calls.id(H5Screate_simple(1, &flat, nullptr), path, "no memory space");
      if (rank > 0) {
        Box rows = box;
        rows.start[0] += first;
        rows.count[0] = count;
        calls.done(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, rows.start.data(), nullptr,
                                       rows.count.data(), nullptr),
                   path, "its rows cannot be selected");
      }
      // Zeroed, as libhdf5 does not write the gaps between the members of a compound.
      std::vector<std::byte> values(elements * element_bytes);
      const std::uint64_t before = variable.bytes();
      calls.done(H5Dread(dataset, type, memory_space.get(), file_space.get(), variable.list(), values.data()),
                 path, "its values cannot be read");
      const Reclaim reclaim(type, memory_space.get(), values.data());
      use(values, elements, memory_space.get(), file_space.get());
      const std::uint64_t bytes_each = element_bytes + (variable.bytes() - before) / elements;
      constexpr std::size_t kFastestGrowth = 4;
      next_elements = std::min<std::size_t>(kPieceBytes / bytes_each, kFastestGrowth * elements);
    }
  };
  visit_boxes(dataset, whole.get(), type, calls, path, rank, extent, read_box);
}

}  // namespace h5feed
