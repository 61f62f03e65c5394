// SPDX-License-Identifier: Apache-2.0
#include "store/write/copy_side.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "h5feed/error.hpp"
#include "store/hdf5/h5_metadata.hpp"
#include "store/hdf5/hdf5_versions.hpp"

namespace h5feed {
namespace {

// Returns whether a virtual dataset has sources with relative names, which are looked up next to its file.
bool has_relative_sources(hid_t plist) {
  std::size_t sources = 0;
  H5Pget_virtual_count(plist, &sources);
  for (std::size_t i = 0; i < sources; ++i) {
    std::array<char, 4096> name = {};
    H5Pget_virtual_filename(plist, i, name.data(), name.size());
    if (std::string_view(name.data()) != "." && name.front() != '/') return true;
  }
  return false;
}

// Returns how many bytes of a dataset without chunks are stored. Throws unless these are none or all.
std::uint64_t check_stored_bytes(const Hdf5Calls& calls, const std::string& path, hid_t dataset,
                                 const ValueShape& shape) H5FEED_REQUIRES(hdf5_mutex) {
  const ScopedId space = calls.id(H5Dget_space(dataset), path, kNoExtent);
  const hssize_t points = std::max<hssize_t>(0, H5Sget_simple_extent_npoints(space.get()));
  // In memory, values of variable length and references have other sizes than in the file.
  const std::uint64_t least = shape.has_variable || shape.has_references ? 1 : shape.bytes;
  std::uint64_t needed = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(points), least, &needed))
    needed = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t stored = H5Dget_storage_size(dataset);
  // Where nothing is stored, all values are the fill value.
  if (stored == 0 || stored >= needed) return stored;
  throw FileError(fmt::format("{}:{}: {} bytes are stored, its shape needs at least {}; {}", calls.file(),
                              short_path(path), stored, needed, kRestore));
}

// libhdf5 crashes over values that it does not find while it copies them.
void check_place(const Hdf5Calls& calls, const std::string& path, hid_t dataset, std::uint64_t stored,
                 std::uint64_t file_bytes) H5FEED_REQUIRES(hdf5_mutex) {
  const haddr_t begin = H5Dget_offset(dataset);
  if (begin == HADDR_UNDEF || (stored <= file_bytes && begin <= file_bytes - stored)) return;
  throw FileError(fmt::format("{}:{}: its {} bytes of values begin at byte {}, outside the file; {}",
                              calls.file(), short_path(path), stored, begin, kRestore));
}

}  // namespace

CopySide::CopySide(const H5File& source, const Hdf5Session& session, const CopyPlan& plan)
    : file(H5FileAccess::handle(source).getId()), cache(file), calls(session, source.path().string()) {
  H5F_info2_t info = {};
  calls.done(H5Fget_info2(file, &info), "/", kNoProperties);
  newer_than_1_8 = info.super.version > 2;
  file_bytes = source.size();
  tree = read_tree(file, calls);
  for (const auto& [path, storage] : plan.filled_by_caller) {
    filled.emplace(key_of(file, path.c_str(), calls, path), std::pair(path, storage));
  }
}

ScopedId CopySide::open(const std::string& path) const {
  return calls.id(H5Oopen(file, path.c_str(), H5P_DEFAULT), path, "cannot be opened");
}

const TreeObject& CopySide::target(ObjectKey key, const std::string& holder) const {
  const TreeObject* const object = tree.find(key);
  if (object == nullptr) {
    calls.refuse(holder,
                 "it holds a reference to an object that no link of the file leads to; remove it first");
  }
  return *object;
}

std::pair<const TreeObject*, ScopedId> CopySide::region(const std::byte* value,
                                                        const std::string& holder) const {
  std::array<char, 4096> name = {};
  const ssize_t length = H5Rget_name(file, H5R_DATASET_REGION, value, name.data(), name.size());
  calls.done(length, holder, "a region reference in it leads nowhere");
  const std::string path(name.data(), std::min(static_cast<std::size_t>(length), name.size() - 1));
  const TreeObject& object = target(key_of(file, path.c_str(), calls, holder), holder);
  return {&object, calls.id(H5Rget_region(file, H5R_DATASET_REGION, value), holder,
                            "a region reference in it cannot be read")};
}

std::string CopySide::reference_text(ValueShape::Kind kind, const std::byte* value,
                                     const std::string& holder) const {
  if (kind == ValueShape::Kind::object_reference) {
    ObjectKey key = 0;
    std::memcpy(&key, value, sizeof key);
    return key == 0 ? "null" : target(key, holder).path;
  }
  if (null_region(value)) return "null";
  const auto [object, space] = region(value, holder);
  std::array<hsize_t, H5S_MAX_RANK> first = {}, last = {};
  H5Sget_select_bounds(space.get(), first.data(), last.data());
  const auto rank = static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space.get())));
  return fmt::format("{} {} {} {}", object->path, H5Sget_select_npoints(space.get()),
                     fmt::join(first.begin(), first.begin() + rank, ","),
                     fmt::join(last.begin(), last.begin() + rank, ","));
}

CopyMethod CopySide::method_of(const TreeObject& object, hid_t dataset, const CopyPlan& plan) const {
  const std::string& path = object.path;
  const ScopedId type = calls.id(H5Dget_type(dataset), path, kNoType);
  const ValueShape shape = value_shape(type.get(), calls, path);
  if (filled.contains(object.key)) return CopyMethod::by_caller;
  const H5::DSetCreatPropList plist(calls.id(H5Dget_create_plist(dataset), path, kNoProperties).get());
  if (plist.getLayout() == H5D_VIRTUAL) {
    if (!plan.latest)
      calls.refuse(path, "a virtual dataset, which HDF5 1.8 cannot read; keep it with --libver latest");
    if (plan.elsewhere && has_relative_sources(plist.getId())) {
      calls.refuse(path,
                   "its sources are looked up next to this file; write the copy into the same directory");
    }
    return CopyMethod::virtual_view;
  }
  if (plist.getExternalCount() > 0) return CopyMethod::external;
  if (plist.getLayout() == H5D_CHUNKED) {
    std::array<hsize_t, H5S_MAX_RANK> chunk = {};
    const int chunk_rank = plist.getChunk(static_cast<int>(chunk.size()), chunk.data());
    const ScopedId space = calls.id(H5Dget_space(dataset), path, kNoExtent);
    check_chunk_rank(calls.file(), path, static_cast<std::size_t>(chunk_rank),
                     static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space.get()))));
  }
  // H5Ocopy of libhdf5 1.10 crashes over values of variable length that are damaged or need a filter which it
  // lacks, and copies a fill value of them as a place in the heap of the source.
  const bool rewritten = shape.has_references || H5Tcommitted(type.get()) > 0 || shape.has_variable;
  // H5Ocopy keeps the layout's version; HDF5 1.8 knows versions up to 3.
  H5D_chunk_index_t index = H5D_CHUNK_IDX_BTREE;
  const bool newer =
      newer_than_1_8 || (plist.getLayout() == H5D_CHUNKED && H5Dget_chunk_index_type(dataset, &index) >= 0 &&
                         index != H5D_CHUNK_IDX_BTREE);
  if (plist.getLayout() != H5D_CHUNKED) {
    const std::uint64_t stored = check_stored_bytes(calls, path, dataset, shape);
    if (plist.getLayout() == H5D_CONTIGUOUS) check_place(calls, path, dataset, stored, file_bytes);
  }
  if (!rewritten && (!newer || plan.latest)) return CopyMethod::verbatim;
  if (const auto missing = missing_filters(plist); !missing.empty()) {
    calls.refuse(path,
                 fmt::format("copying it needs filter {} ({}), which libhdf5 does not find; install its "
                             "plugin and set HDF5_PLUGIN_PATH",
                             missing.front().id, missing.front().name));
  }
  return CopyMethod::by_values;
}

void CopySide::check_references(const ValueShape& shape, std::byte* values, std::size_t elements,
                                const std::string& holder) const {
  for (std::size_t i = 0; i < elements; ++i) {
    visit_references(
        shape, values + i * shape.bytes,
        [&](ValueShape::Kind kind, std::byte* value) H5FEED_REQUIRES(hdf5_mutex) {
          if (kind == ValueShape::Kind::object_reference || null_region(value)) {
            reference_text(kind, value, holder);
            return;
          }
          const TreeObject& object = *region(value, holder).first;
          const auto ours = filled.find(object.key);
          if (ours != filled.end() && ours->second.second.rows_move) {
            calls.refuse(holder, fmt::format("it refers to a region of {}, whose rows move; remove it first",
                                             object.path));
          }
        });
  }
}

void with_attribute(const Hdf5Calls& calls, hid_t attribute, const std::string& holder,
                    const std::function<void(hid_t type, hid_t space, const ValueShape& shape,
                                             std::span<std::byte> values, std::size_t elements)>& use) {
  const ScopedId type = calls.id(H5Aget_type(attribute), holder, kNoType);
  const ScopedId space = calls.id(H5Aget_space(attribute), holder, kNoExtent);
  const ValueShape shape = value_shape(type.get(), calls, holder);
  const hssize_t points = std::max<hssize_t>(0, H5Sget_simple_extent_npoints(space.get()));
  const std::size_t elements =
      H5Sget_simple_extent_type(space.get()) == H5S_NULL ? 0 : static_cast<std::size_t>(points);
  std::vector<std::byte> values(elements * shape.bytes);
  if (elements == 0) {
    use(type.get(), space.get(), shape, values, 0);
    return;
  }
  calls.done(H5Aread(attribute, type.get(), values.data()), holder, "its value cannot be read");
  const Reclaim reclaim(type.get(), space.get(), values.data());
  use(type.get(), space.get(), shape, values, elements);
}

void with_fill_value(const Hdf5Calls& calls, const H5::DSetCreatPropList& plist, hid_t type,
                     const std::string& path, const std::function<void(std::span<std::byte> value)>& use) {
  H5D_fill_value_t defined = H5D_FILL_VALUE_DEFAULT;
  calls.done(H5Pfill_value_defined(plist.getId(), &defined), path, kNoProperties);
  if (defined != H5D_FILL_VALUE_USER_DEFINED) return;
  std::vector<std::byte> value(H5Tget_size(type));
  calls.done(H5Pget_fill_value(plist.getId(), type, value.data()), path, "its fill value cannot be read");
  const ScopedId one = calls.id(H5Screate(H5S_SCALAR), path, kNoExtent);
  const Reclaim reclaim(type, one.get(), value.data());
  use(value);
}

bool null_region(const std::byte* value) noexcept {
  return std::all_of(value, value + sizeof(hdset_reg_ref_t),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

std::vector<FilterSpec> missing_filters(const H5::DSetCreatPropList& plist) {
  std::vector<FilterSpec> missing;
  for (FilterSpec& filter : read_filters(plist)) {
    if (H5Zfilter_avail(static_cast<H5Z_filter_t>(filter.id)) <= 0) missing.push_back(std::move(filter));
  }
  return missing;
}

}  // namespace h5feed
