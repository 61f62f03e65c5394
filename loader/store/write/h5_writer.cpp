// SPDX-License-Identifier: Apache-2.0
#include "store/write/h5_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "store/filters/filters.hpp"
#include "store/format/byte_source.hpp"
#include "store/hdf5/h5_file_handles.hpp"
#include "store/hdf5/h5_metadata.hpp"
#include "store/hdf5/hdf5_types.hpp"
#include "store/write/attribute_write.hpp"
#include "store/write/creation_properties.hpp"
#include "store/write/h5_writer_handles.hpp"

namespace h5feed {
namespace {

// Object headers without time stamps, so that equal content makes equal files.
void forget_times(const H5::PropList& plist) {
  if (H5Pset_obj_track_times(plist.getId(), false) < 0) {
    throw H5::PropListIException("H5Pset_obj_track_times", "failed");
  }
}

std::vector<hsize_t> to_hsize(std::span<const std::uint64_t> values) {
  return {values.begin(), values.end()};
}

H5::DSetCreatPropList creation_properties(const NewDataset& dataset) {
  H5::DSetCreatPropList plist;
  forget_times(plist);
  if (!dataset.chunk_shape.empty()) {
    const std::vector<hsize_t> chunk = to_hsize(dataset.chunk_shape);
    plist.setChunk(static_cast<int>(chunk.size()), chunk.data());
  }
  std::size_t chunk_bytes = size_of(dataset.dtype);
  for (const std::uint64_t extent : dataset.chunk_shape) chunk_bytes *= extent;
  add_filters(plist, dataset.filters, chunk_bytes, size_of(dataset.dtype));
  if (!dataset.fill_value.empty()) plist.setFillValue(file_type(dataset.dtype), dataset.fill_value.data());
  return plist;
}

// Creates the groups above `path` that do not exist yet.
void create_groups(const H5::H5File& file, const std::string& path) {
  H5::PropList plist(H5P_GROUP_CREATE);
  forget_times(plist);
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string group = path.substr(0, slash);
    if (H5Lexists(file.getId(), group.c_str(), H5P_DEFAULT) > 0) continue;
    const hid_t id = H5Gcreate2(file.getId(), group.c_str(), H5P_DEFAULT, plist.getId(), H5P_DEFAULT);
    if (id < 0) throw H5::GroupIException("H5Gcreate2", "failed");
    H5Gclose(id);
  }
}

// Datasets that libhdf5 copies keep references to a table of shared messages, even to one that is not there.
void share_messages_like(const H5::FileCreatPropList& like, const H5::FileCreatPropList& creation) {
  const auto require = [](herr_t status) {
    if (status < 0) throw H5::PropListIException("H5Pset_shared_mesg_index", "failed");
  };
  unsigned tables = 0, most_in_list = 0, least_in_tree = 0;
  require(H5Pget_shared_mesg_nindexes(like.getId(), &tables));
  if (tables == 0) return;
  require(H5Pset_shared_mesg_nindexes(creation.getId(), tables));
  for (unsigned table = 0; table < tables; ++table) {
    unsigned kinds = 0, least_bytes = 0;
    require(H5Pget_shared_mesg_index(like.getId(), table, &kinds, &least_bytes));
    require(H5Pset_shared_mesg_index(creation.getId(), table, kinds, least_bytes));
  }
  require(H5Pget_shared_mesg_phase_change(like.getId(), &most_in_list, &least_in_tree));
  require(H5Pset_shared_mesg_phase_change(creation.getId(), most_in_list, least_in_tree));
}

// Returns the file creation properties for a copy of `source`; leaves out those that HDF5 1.8 cannot read
// unless `latest`.
H5::FileCreatPropList creation_like(const H5::H5File& source, bool latest) H5FEED_REQUIRES(hdf5_mutex) {
  const H5::FileCreatPropList like = file_creation_properties(source);
  H5::FileCreatPropList creation;
  if (latest) {
    creation = like;
  } else {
    creation.setUserblock(like.getUserblock());
    std::size_t address_bytes = 0, length_bytes = 0;
    like.getSizes(address_bytes, length_bytes);
    creation.setSizes(address_bytes, length_bytes);
    unsigned internal = 0, leaf = 0;
    like.getSymk(internal, leaf);
    creation.setSymk(internal, leaf);
    share_messages_like(like, creation);
  }
  // A file's creation property list does not include its root group's properties.
  const hid_t group = H5Gopen2(source.getId(), "/", H5P_DEFAULT);
  const hid_t plist = H5Gget_create_plist(group);
  const H5::PropList root(plist);
  if (plist >= 0) H5Pclose(plist);
  if (group >= 0) H5Gclose(group);
  if (copy_group_properties(root.getId(), creation.getId()) < 0) {
    throw H5::PropListIException("copy_group_properties", "failed");
  }
  return creation;
}

// Uses the HDF5 1.8 object format if the source does: attributes beyond 64 KiB need it.
void set_version_bounds(const H5::FileAccPropList& access, const H5::H5File& source, bool latest) {
  H5F_info2_t info = {};
  if (H5Fget_info2(source.getId(), &info) < 0) throw H5::FileIException("H5Fget_info2", "failed");
  if (latest) {
    access.setLibverBounds(H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  } else {
    access.setLibverBounds(info.super.version < 2 ? H5F_LIBVER_EARLIEST : H5F_LIBVER_V18, H5F_LIBVER_V18);
  }
}

// Copies the user block, which libhdf5 does not touch.
void copy_user_block(const ByteSource& source, std::uint64_t bytes, const std::filesystem::path& to) {
  std::vector<std::byte> content(static_cast<std::size_t>(bytes));
  source.read(0, content);
  std::fstream out(to, std::ios::in | std::ios::out | std::ios::binary);
  out.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  out.close();
  if (!out)
    throw FileError(fmt::format("{}: the user block cannot be written; check the storage", to.string()));
}

}  // namespace

void H5Writer::State::fail(const Hdf5Session& session, std::string_view what) const {
  throw FileError(fmt::format("{}: {}: {}", staged.target().string(), what, session.error()));
}

H5::DataSet H5Writer::State::dataset(const std::string& path) {
  const auto found = datasets.find(path);
  if (found == datasets.end()) {
    throw FileError(fmt::format("{}: no dataset {} was created", staged.target().string(), path));
  }
  return H5::DataSet(found->second);
}

void H5Writer::State::reserve(std::uint64_t data_bytes) {
  hsize_t file_bytes = 0;
  H5Fget_filesize(file, &file_bytes);
  staged.reserve(file_bytes + data_bytes + kMetadataRoomBytes);
}

std::vector<hid_t> H5Writer::State::take_ids() {
  const MutexLock lock(hdf5_mutex);
  std::vector<hid_t> ids;
  for (const auto& [path, id] : datasets) ids.push_back(id);
  datasets.clear();
  if (file != H5I_INVALID_HID) ids.push_back(std::exchange(file, H5I_INVALID_HID));
  return ids;
}

H5Writer::H5Writer(std::filesystem::path target, bool overwrite)
    : state_(std::make_unique<State>(std::move(target), overwrite)) {
  const Hdf5Session session;
  try {
    const H5::FileCreatPropList creation;
    forget_times(creation);
    const H5::FileAccPropList access;
    access.setLibverBounds(H5F_LIBVER_EARLIEST, H5F_LIBVER_V18);
    read_unused_bits(access);
    const H5::H5File file(state_->staged.temporary().string(), H5F_ACC_EXCL, creation, access);
    state_->staged.reserve(kMetadataRoomBytes);
    state_->file = retain(file);
  } catch (const H5::Exception&) {
    state_->fail(session, "cannot be created");
  }
}

H5Writer::H5Writer(std::filesystem::path target, bool overwrite, const H5File& like, bool latest)
    : state_(std::make_unique<State>(std::move(target), overwrite)) {
  std::uint64_t user_block_bytes = 0;
  {
    const Hdf5Session session;
    try {
      const H5::H5File source = H5FileAccess::handle(like);
      const H5::FileCreatPropList creation = creation_like(source, latest);
      user_block_bytes = creation.getUserblock();
      const H5::FileAccPropList access;
      set_version_bounds(access, source, latest);
      limit_metadata_cache(access);
      read_unused_bits(access);
      const H5::H5File file(state_->staged.temporary().string(), H5F_ACC_EXCL, creation, access);
      state_->staged.reserve(kMetadataRoomBytes);
      state_->file = retain(file);
    } catch (const H5::Exception&) {
      state_->fail(session, "cannot be created");
    }
  }
  if (user_block_bytes > 0) copy_user_block(*like.bytes(), user_block_bytes, state_->staged.temporary());
}

H5Writer::~H5Writer() {
  for (const hid_t id : state_->take_ids()) Hdf5Session::release(id);
}

void H5Writer::create_dataset(const NewDataset& dataset) {
  const Hdf5Session session;
  state_->reserve(0);
  try {
    const H5::H5File file(state_->file);
    create_groups(file, dataset.path);
    const std::vector<hsize_t> most = to_hsize(dataset.shape);
    std::vector<hsize_t> shape = most;
    if (dataset.grows) shape.at(0) = 0;
    const H5::DataSpace space =
        shape.empty() ? H5::DataSpace()
                      : H5::DataSpace(static_cast<int>(shape.size()), shape.data(), most.data());
    const H5::DataSet created =
        file.createDataSet(dataset.path, file_type(dataset.dtype), space, creation_properties(dataset));
    state_->datasets.emplace(dataset.path, retain(created));
  } catch (const H5::Exception&) {
    state_->fail(session, fmt::format("cannot create {}", dataset.path));
  }
}

void H5Writer::write_chunk(const std::string& path, std::span<const std::uint64_t> offset,
                           std::span<const std::byte> encoded, std::uint32_t filter_mask) {
  const Hdf5Session session;
  const std::vector<hsize_t> first = to_hsize(offset);
  const H5::DataSet dataset = state_->dataset(path);
  state_->reserve(encoded.size());
  if (H5Dwrite_chunk(dataset.getId(), H5P_DEFAULT, filter_mask, first.data(), encoded.size(),
                     encoded.data()) < 0) {
    state_->fail(session, fmt::format("cannot write a chunk of {}", path));
  }
  state_->staged.wrote(encoded.size());
}

void H5Writer::write_rows(const std::string& path, std::uint64_t first, std::uint64_t count,
                          std::span<const std::byte> rows) {
  const Hdf5Session session;
  try {
    const H5::DataSet dataset = state_->dataset(path);
    const H5::DataSpace file_space = dataset.getSpace();
    // The first write allocates the whole dataset.
    state_->reserve(H5Dget_offset(dataset.getId()) == HADDR_UNDEF ? dataset.getInMemDataSize() : 0);
    std::vector<hsize_t> extent(static_cast<std::size_t>(file_space.getSimpleExtentNdims()));
    if (extent.empty()) {
      dataset.write(rows.data(), memory_type(dataset), file_space, file_space);
      return;
    }
    file_space.getSimpleExtentDims(extent.data());
    std::vector<hsize_t> start(extent.size(), 0);
    start.front() = first;
    extent.front() = count;
    file_space.selectHyperslab(H5S_SELECT_SET, extent.data(), start.data());
    const H5::DataSpace memory_space(static_cast<int>(extent.size()), extent.data());
    dataset.write(rows.data(), memory_type(dataset), memory_space, file_space);
    state_->staged.wrote(rows.size());
  } catch (const H5::Exception&) {
    state_->fail(session, fmt::format("cannot write rows {}-{} of {}", first, first + count - 1, path));
  }
}

void H5Writer::create_ragged(const std::string& path, DType dtype, std::uint64_t most_rows,
                             std::uint64_t rows_per_chunk) {
  const Hdf5Session session;
  state_->reserve(0);
  try {
    const H5::H5File file(state_->file);
    create_groups(file, path);
    const hsize_t extent = 0;
    const hsize_t most = most_rows;
    H5::DSetCreatPropList plist;
    forget_times(plist);
    const hsize_t chunk = std::max<hsize_t>(1, std::min<hsize_t>(rows_per_chunk, most));
    plist.setChunk(1, &chunk);
    const H5::DataType element = file_type(dtype);
    const H5::DataSet created =
        file.createDataSet(path, H5::VarLenType(element), H5::DataSpace(1, &extent, &most), plist);
    state_->datasets.emplace(path, retain(created));
  } catch (const H5::Exception&) {
    state_->fail(session, fmt::format("cannot create {}", path));
  }
}

void H5Writer::write_ragged(const std::string& path, std::uint64_t first,
                            std::span<const std::span<const std::byte>> rows) {
  const Hdf5Session session;
  try {
    const H5::DataSet dataset = state_->dataset(path);
    const H5::VarLenType type = dataset.getVarLenType();
    const std::size_t element_bytes = type.getSuper().getSize();
    std::vector<hvl_t> values;
    std::uint64_t bytes = 0;
    for (const std::span<const std::byte> row : rows) {
      // libhdf5 only reads the values here; the same struct is used for reading and writing, so its pointer
      // is not const.
      values.push_back({row.size() / element_bytes, const_cast<std::byte*>(row.data())});
      bytes += row.size();
    }
    // Each sequence may start a new heap block.
    constexpr std::uint64_t kHeapOverhead = 4096;
    state_->reserve(bytes + kHeapOverhead * rows.size());
    const H5::DataSpace file_space = dataset.getSpace();
    const hsize_t start = first;
    const hsize_t count = rows.size();
    file_space.selectHyperslab(H5S_SELECT_SET, &count, &start);
    dataset.write(values.data(), type, H5::DataSpace(1, &count), file_space);
    state_->staged.wrote(bytes);
  } catch (const H5::Exception&) {
    state_->fail(session, fmt::format("cannot write rows {}-{} of {}", first, first + rows.size() - 1, path));
  }
}

void H5Writer::set_rows(const std::string& path, std::uint64_t rows) {
  const Hdf5Session session;
  try {
    const H5::DataSet dataset = state_->dataset(path);
    const H5::DataSpace space = dataset.getSpace();
    std::vector<hsize_t> extent(static_cast<std::size_t>(space.getSimpleExtentNdims()));
    space.getSimpleExtentDims(extent.data());
    extent.at(0) = rows;
    if (H5Dset_extent(dataset.getId(), extent.data()) < 0)
      throw H5::DataSetIException("H5Dset_extent", "failed");
  } catch (const H5::Exception&) {
    state_->fail(session, fmt::format("cannot extend {} to {} rows", path, rows));
  }
}

void H5Writer::write_attribute(const std::string& path, const NamedAttribute& attribute) {
  const Hdf5Session session;
  constexpr std::uint64_t kLargest = kMiB;  // In addition to kMetadataRoomBytes: names of very many classes
  state_->reserve(kLargest);
  try {
    put_attribute(H5::H5File(state_->file), path, attribute);
  } catch (const H5::Exception&) {
    state_->fail(session, fmt::format("cannot write the attribute {} of {}", attribute.name, path));
  }
}

void H5Writer::close() {
  {
    const Hdf5Session session;
    if (state_->file == H5I_INVALID_HID) return;
    if (H5Fflush(state_->file, H5F_SCOPE_LOCAL) < 0) state_->fail(session, "cannot be finished");
  }
  bool closed = true;
  for (const hid_t id : state_->take_ids()) closed = Hdf5Session::release(id) && closed;
  if (!closed) {
    throw FileError(
        fmt::format("{}: libhdf5 could not close it; check the storage", state_->staged.target().string()));
  }
}

const std::filesystem::path& H5Writer::temporary() const noexcept { return state_->staged.temporary(); }

void H5Writer::commit() {
  close();
  state_->staged.commit();
}

}  // namespace h5feed
