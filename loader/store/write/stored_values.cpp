// SPDX-License-Identifier: Apache-2.0
#include "store/write/stored_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "base/byte_units.hpp"
#include "store/index/array_places.hpp"

namespace h5feed {
namespace {

using Kind = ValueShape::Kind;

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

void add_part(ValueShape& shape, std::size_t offset, ValueShape part) {
  shape.has_references = shape.has_references || part.has_references;
  shape.has_variable = shape.has_variable || part.has_variable;
  shape.parts.push_back({offset, std::move(part)});
}

}  // namespace

Reclaim::~Reclaim() {
#if H5_VERSION_GE(1, 12, 0)
  H5Treclaim(type_, space_, H5P_DEFAULT, values_);
#else
  H5Dvlen_reclaim(type_, space_, H5P_DEFAULT, values_);
#endif
}

ValueShape value_shape(hid_t type, const Hdf5Calls& calls, const std::string& object) {
  const auto part_of = [&](hid_t part) H5FEED_REQUIRES(hdf5_mutex) {
    const ScopedId id = calls.id(part, object, "its type cannot be read");
    return value_shape(id.get(), calls, object);
  };
  ValueShape shape;
  shape.bytes = H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_REFERENCE:
      shape.has_references = true;
      if (H5Tequal(type, H5T_STD_REF_OBJ) > 0) {
        shape.kind = Kind::object_reference;
      } else if (H5Tequal(type, H5T_STD_REF_DSETREG) > 0) {
        shape.kind = Kind::region_reference;
      } else {
        calls.refuse(object, "references of a kind that h5feed does not know cannot be carried over");
      }
      break;
    case H5T_STRING:
      if (H5Tis_variable_str(type) > 0) {
        shape.kind = Kind::text;
        shape.has_variable = true;
      }
      break;
    case H5T_VLEN:
      shape.kind = Kind::sequence;
      add_part(shape, 0, part_of(H5Tget_super(type)));
      shape.has_variable = true;
      break;
    case H5T_ARRAY: {
      shape.kind = Kind::array;
      ValueShape base = part_of(H5Tget_super(type));
      shape.count = base.bytes == 0 ? 0 : shape.bytes / base.bytes;
      add_part(shape, 0, std::move(base));
      break;
    }
    case H5T_COMPOUND: {
      shape.kind = Kind::compound;
      const int members = H5Tget_nmembers(type);
      for (int i = 0; i < members; ++i) {
        const auto member = static_cast<unsigned>(i);
        add_part(shape, H5Tget_member_offset(type, member), part_of(H5Tget_member_type(type, member)));
      }
      break;
    }
    default:
      break;
  }
  return shape;
}

void visit_references(const ValueShape& shape, std::byte* value,
                      const std::function<void(Kind, std::byte*)>& visit) {
  if (!shape.has_references) return;
  switch (shape.kind) {
    case Kind::object_reference:
    case Kind::region_reference:
      visit(shape.kind, value);
      return;
    case Kind::compound:
      for (const auto& [offset, part] : shape.parts) visit_references(part, value + offset, visit);
      return;
    case Kind::array: {
      const ValueShape& base = shape.parts.front().shape;
      for (std::size_t i = 0; i < shape.count; ++i) visit_references(base, value + i * base.bytes, visit);
      return;
    }
    case Kind::sequence: {
      hvl_t sequence;
      std::memcpy(&sequence, value, sizeof sequence);
      const ValueShape& base = shape.parts.front().shape;
      auto* const elements = static_cast<std::byte*>(sequence.p);
      for (std::size_t i = 0; i < sequence.len; ++i) visit_references(base, elements + i * base.bytes, visit);
      return;
    }
    default:
      return;
  }
}

void serialize(const ValueShape& shape, std::byte* value,
               const std::function<std::string(Kind, std::byte*)>& reference_text,
               const std::function<void(std::span<const std::byte>)>& update) {
  if (!shape.has_references && !shape.has_variable) {
    update({value, shape.bytes});
    return;
  }
  // Lengths come first, so that different values cannot produce the same bytes.
  const auto put = [&update](const void* bytes, std::size_t length) {
    update(std::as_bytes(std::span(&length, 1)));
    if (length > 0) update({static_cast<const std::byte*>(bytes), length});
  };
  switch (shape.kind) {
    case Kind::object_reference:
    case Kind::region_reference: {
      const std::string text = reference_text(shape.kind, value);
      put(text.data(), text.size());
      return;
    }
    case Kind::text: {
      const char* text = nullptr;
      std::memcpy(&text, value, sizeof text);
      put(text, text == nullptr ? 0 : std::strlen(text));
      return;
    }
    case Kind::compound:
      for (const auto& [offset, part] : shape.parts) serialize(part, value + offset, reference_text, update);
      return;
    case Kind::array: {
      const ValueShape& base = shape.parts.front().shape;
      for (std::size_t i = 0; i < shape.count; ++i)
        serialize(base, value + i * base.bytes, reference_text, update);
      return;
    }
    case Kind::sequence: {
      hvl_t sequence;
      std::memcpy(&sequence, value, sizeof sequence);
      const ValueShape& base = shape.parts.front().shape;
      auto* const elements = static_cast<std::byte*>(sequence.p);
      update(std::as_bytes(std::span(&sequence.len, 1)));
      for (std::size_t i = 0; i < sequence.len; ++i)
        serialize(base, elements + i * base.bytes, reference_text, update);
      return;
    }
    default:
      return;
  }
}

namespace {

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
