// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/h5_metadata.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <span>

#include "h5feed/error.hpp"
#include "store/filters/filters.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/format/host_values.hpp"
#include "store/hdf5/hdf5_session.hpp"
#include "store/hdf5/hdf5_types.hpp"
#include "store/hdf5/hdf5_versions.hpp"

namespace h5feed {
namespace {

// Checks numbers from the file that libhdf5 does not verify. Throws FileError if two of them contradict each
// other, DatasetError if h5feed cannot count the bytes. The shapes are those of the file.
void check_numbers(const DatasetInfo& info, std::size_t element_bytes) {
  // The places of chunks in an index follow from the maxima.
  for (std::size_t d = 0; d < info.shape.size(); ++d) {
    if (info.shape[d] <= info.max_shape[d]) continue;
    throw FileError(fmt::format("{}:{}: its shape has {} elements in dimension {}, its largest shape {}; {}",
                                info.file, short_path(info.path), info.shape[d], d, info.max_shape[d],
                                kRestore));
  }
  if (info.layout == StorageLayout::chunked) {
    check_chunk_rank(info.file, info.path, info.chunk_shape.size(), info.shape.size());
    if (std::ranges::find(info.chunk_shape, 0U) != info.chunk_shape.end()) {
      throw FileError(fmt::format("{}:{}: its chunks have the shape {}; {}", info.file, short_path(info.path),
                                  format_shape(info.chunk_shape), kRestore));
    }
  }
  for (const auto* shape : {&info.shape, &info.chunk_shape}) {
    if (within_limit(*shape, element_bytes)) continue;
    throw DatasetError(fmt::format(
        "{}:{}: {} of {} elements of {} bytes take more than 2^62 bytes, h5feed's limit; name another "
        "dataset, or restore the file from a good copy if they should not",
        info.file, short_path(info.path), shape == &info.shape ? "data" : "chunks", format_shape(*shape),
        element_bytes));
  }
}

FilterSpec read_filter(const H5::DSetCreatPropList& plist, int number) {
  FilterSpec filter;
  unsigned flags = 0;
  unsigned config = 0;
  std::size_t count = 0;
  std::array<char, 256> name = {};
  filter.id =
      static_cast<unsigned>(plist.getFilter(number, flags, count, nullptr, name.size(), name.data(), config));
  filter.params.resize(count);
  if (count > 0)
    plist.getFilter(number, flags, count, filter.params.data(), name.size(), name.data(), config);
  filter.optional = (flags & H5Z_FLAG_OPTIONAL) != 0;
  filter.name = filter_name(filter.id);
  name.back() = '\0';
  if (filter.name.empty()) filter.name = name.front() == 0 ? "unnamed" : name.data();
  return filter;
}

void read_chunking(const H5::DSetCreatPropList& plist, DatasetInfo& info) {
  std::array<hsize_t, H5S_MAX_RANK> chunk = {};
  const int rank = plist.getChunk(static_cast<int>(chunk.size()), chunk.data());
  info.chunk_shape.assign(chunk.begin(), chunk.begin() + rank);
  unsigned options = 0;
  if (H5Pget_chunk_opts(plist.getId(), &options) < 0) {
    throw H5::PropListIException("H5Pget_chunk_opts", "failed");
  }
  info.unfiltered_edge_chunks = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
  info.filters = read_filters(plist);
}

void read_layout(const H5::DSetCreatPropList& plist, DatasetInfo& info) {
  switch (plist.getLayout()) {
    case H5D_COMPACT:
      info.layout = StorageLayout::compact;
      break;
    case H5D_CHUNKED:
      info.layout = StorageLayout::chunked;
      read_chunking(plist, info);
      break;
    case H5D_VIRTUAL:
      info.layout = StorageLayout::virtual_dataset;
      break;
    default:
      info.layout = plist.getExternalCount() > 0 ? StorageLayout::external : StorageLayout::contiguous;
      break;
  }
}

std::string index_name(H5D_chunk_index_t index) {
  switch (index) {
    case H5D_CHUNK_IDX_BTREE:
      return std::string(kVersion1Index);
    case H5D_CHUNK_IDX_SINGLE:
      return "single chunk";
    case H5D_CHUNK_IDX_NONE:
      return "implicit";
    case H5D_CHUNK_IDX_FARRAY:
      return "fixed array";
    case H5D_CHUNK_IDX_EARRAY:
      return "extensible array";
    case H5D_CHUNK_IDX_BT2:
      return "B-tree v2";
    default:
      return "unknown";
  }
}

// libhdf5 takes the single chunk for each of several.
void check_single_chunk(const DatasetInfo& info) {
  if (std::ranges::equal(info.shape, info.chunk_shape, std::less_equal<>())) return;
  throw FileError(fmt::format("{}:{}: its shape is {}, and its chunk index one for a single chunk of {}; {}",
                              info.file, short_path(info.path), format_shape(info.shape),
                              format_shape(info.chunk_shape), kRestore));
}

// Throws FileError if the kind of the index contradicts the shape.
void read_stored_size(const H5::DataSet& dataset, DatasetInfo& info) {
  H5D_chunk_index_t index = H5D_CHUNK_IDX_BTREE;
  const bool known =
      info.layout == StorageLayout::chunked && H5Dget_chunk_index_type(dataset.getId(), &index) >= 0;
  if (known) info.index_kind = index_name(index);
  if (known && index == H5D_CHUNK_IDX_SINGLE) check_single_chunk(info);
  if (known && index == H5D_CHUNK_IDX_NONE) {
    // An implicit index has all chunks, all of one size. libhdf5 would visit each to count them, which takes
    // forever if the shape is damaged.
    info.stored_bytes = size_of(info.dtype);
    for (const std::uint64_t chunks : chunk_grid(info.shape, info.chunk_shape)) info.stored_bytes *= chunks;
    for (const std::uint64_t extent : info.chunk_shape) info.stored_bytes *= extent;
    return;
  }
  info.stored_bytes = dataset.getStorageSize();
}

// Returns the value of a link of that type, and a zero behind it; empty for other links, and if libhdf5
// cannot read it.
std::vector<char> link_value(hid_t location, const std::string& path, H5L_type_t type) {
  LinkInfo info = {};
  if (kLinkInfo(location, path.c_str(), &info, H5P_DEFAULT) < 0 || info.type != type) return {};
  std::vector<char> value(info.u.val_size + 1, '\0');
  if (H5Lget_val(location, path.c_str(), value.data(), info.u.val_size, H5P_DEFAULT) < 0) return {};
  return value;
}

}  // namespace

std::vector<FilterSpec> read_filters(const H5::DSetCreatPropList& plist) {
  std::vector<FilterSpec> filters;
  const int count = plist.getNfilters();
  for (int i = 0; i < count; ++i) filters.push_back(read_filter(plist, i));
  return filters;
}

void check_chunk_rank(const std::string& file_name, const std::string& path, std::size_t chunk_rank,
                      std::size_t rank) {
  if (chunk_rank == rank && rank > 0) return;
  const auto dimensions = [](std::size_t count) {
    return fmt::format("{} dimension{}", count, count == 1 ? "" : "s");
  };
  throw FileError(fmt::format("{}:{}: its chunks have {}, its data has {}; {}", file_name, short_path(path),
                              dimensions(chunk_rank), dimensions(rank), kRestore));
}

std::optional<ExternalLink> external_link(hid_t location, const std::string& path) {
  const std::vector<char> value = link_value(location, path, H5L_TYPE_EXTERNAL);
  const char* other_file = nullptr;
  const char* other_path = nullptr;
  unsigned flags = 0;
  if (value.empty() ||
      H5Lunpack_elink_val(value.data(), value.size() - 1, &flags, &other_file, &other_path) < 0)
    return std::nullopt;
  return ExternalLink{.path = {}, .other_file = other_file, .other_path = other_path};
}

std::string link_target(hid_t file, const std::string& path) {
  if (const std::vector<char> value = link_value(file, path, H5L_TYPE_SOFT); !value.empty())
    return value.data();
  const std::optional<ExternalLink> link = external_link(file, path);
  return link ? fmt::format("{}:{}", link->other_file, link->other_path) : std::string();
}

std::string behind_soft_link(const std::string& path, const std::string& target) {
  return target.starts_with('/') ? target : path.substr(0, path.rfind('/') + 1) + target;
}

Extent read_extent(const H5::DataSet& dataset) {
  const H5::DataSpace space = dataset.getSpace();
  Extent extent;
  extent.null = space.getSimpleExtentType() == H5S_NULL;
  if (extent.null) return extent;
  std::array<hsize_t, H5S_MAX_RANK> dims = {};
  std::array<hsize_t, H5S_MAX_RANK> max_dims = {};
  const auto rank = space.getSimpleExtentDims(dims.data(), max_dims.data());
  extent.shape.assign(dims.begin(), dims.begin() + rank);
  extent.max_shape.assign(max_dims.begin(), max_dims.begin() + rank);
  return extent;
}

namespace {

// Reads the metadata of a dataset whose `type` the caller has classified.
DatasetInfo read_stored(const std::string& file_name, const std::string& path, const H5::DataSet& dataset,
                        const StoredType& type) {
  const Extent extent = read_extent(dataset);
  if (extent.null) {
    throw DatasetError(fmt::format("{}:{}: the dataset was created without any elements; name another",
                                   file_name, short_path(path)));
  }
  if (type.values > 1 && extent.shape.empty()) {
    throw DatasetError(fmt::format("{}:{} is one complex number, not an array of them; name another",
                                   file_name, short_path(path)));
  }
  DatasetInfo info{.file = file_name,
                   .path = path,
                   .dtype = *type.dtype,
                   .byte_swapped = type.byte_swapped,
                   .bits = type.bits,
                   .values_per_element = type.values,
                   .plain_type = type.plain,
                   .shape = extent.shape,
                   .max_shape = extent.max_shape};
  const H5::DSetCreatPropList plist = dataset.getCreatePlist();
  read_layout(plist, info);
  const std::size_t element_bytes = size_of(info.dtype) * info.values_per_element;
  check_numbers(info, element_bytes);
  if (info.values_per_element > 1) {
    for (std::vector<std::uint64_t>* extents : {&info.shape, &info.max_shape, &info.chunk_shape}) {
      if (extents != &info.chunk_shape || info.layout == StorageLayout::chunked)
        extents->push_back(info.values_per_element);
    }
  }
  info.fill_value.resize(element_bytes);
  // Variable-length data has no fill value.
  if (dataset.getTypeClass() != H5T_VLEN && plist.isFillValueDefined() != H5D_FILL_VALUE_UNDEFINED) {
    plist.getFillValue(memory_type(dataset), info.fill_value.data());
    take_value_bits(info, info.fill_value);
  }
  read_stored_size(dataset, info);
  return info;
}

// Classifies the elements of a dataset (N) of variable-length numbers; for any other dataset, returns no
// dtype.
StoredType classify_ragged(const H5::DataSet& dataset) {
  if (dataset.getTypeClass() != H5T_VLEN || read_extent(dataset).shape.size() != 1) return {};
  return classify_vlen_element(dataset);
}

}  // namespace

DatasetInfo read_info(const std::string& file_name, const std::string& path, const H5::DataSet& dataset) {
  const StoredType type = classify_type(dataset);
  if (!type.dtype) {
    if (const StoredType element = classify_ragged(dataset); element.dtype) {
      throw DatasetError(fmt::format(
          "{}:{}: the elements are {} of variable length; they can be a named field, with collate = "
          "ragged or pad, while the samples of the data have one shape",
          file_name, short_path(path), name_of(*element.dtype)));
    }
    throw DatasetError(
        fmt::format("{}:{}: the elements are {}; h5feed reads integers of 1, 2, 4 or 8 bytes, bitfields "
                    "of 8, 16, 32 or 64 bits, enumerations, IEEE floats of 16, 32 or 64 bits, bfloat16 and "
                    "complex numbers; store the "
                    "data as one of these",
                    file_name, short_path(path), type.text));
  }
  return read_stored(file_name, path, dataset, type);
}

std::optional<VlenInfo> read_vlen_info(const std::string& file_name, const std::string& path,
                                       const H5::DataSet& dataset, std::size_t reference_bytes) {
  const StoredType element = classify_ragged(dataset);
  if (!element.dtype) return std::nullopt;
  return VlenInfo{
      read_stored(file_name, path, dataset,
                  {DType::u8, false, "variable-length", static_cast<unsigned>(reference_bytes), false}),
      *element.dtype, element.byte_swapped};
}

H5::FileCreatPropList file_creation_properties(const H5::H5File& file) {
  const hid_t id = H5Fget_create_plist(file.getId());
  if (id < 0) throw H5::FileIException("H5Fget_create_plist", "failed");
  H5::FileCreatPropList copy(id);
  H5Pclose(id);
  return copy;
}

// H5Dread_chunk has another argument since libhdf5 2.0.
bool read_raw_chunk(const H5::DataSet& dataset, const std::vector<hsize_t>& offset, std::span<std::byte> raw,
                    std::uint32_t& filter_mask) {
#if H5_VERSION_GE(2, 0, 0)
  std::size_t room = raw.size();
  return H5Dread_chunk2(dataset.getId(), H5P_DEFAULT, offset.data(), &filter_mask, raw.data(), &room) >= 0;
#else
  return H5Dread_chunk(dataset.getId(), H5P_DEFAULT, offset.data(), &filter_mask, raw.data()) >= 0;
#endif
}

}  // namespace h5feed
