#include "store/h5_writer.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "store/filters.hpp"
#include "store/hdf5_session.hpp"
#include "store/hdf5_types.hpp"
#include "store/staged_file.hpp"

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
  for (const FilterSpec& given : dataset.filters) {
    const FilterSpec filter = completed(given, chunk_bytes, size_of(dataset.dtype));
    const auto id = static_cast<H5Z_filter_t>(filter.id);
    std::span<const unsigned> params = filter.params;
    // Where libhdf5 finds the public bitshuffle plugin, that puts the first three in front by itself.
    if (filter.id == filter_id::kBitshuffle && H5Zfilter_avail(id) > 0) params = params.subspan(3);
    const unsigned flags = filter.optional ? H5Z_FLAG_OPTIONAL : H5Z_FLAG_MANDATORY;
    plist.setFilter(id, flags, params.size(), params.data());
  }
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

// What libhdf5 may add to the file beside the data of one call: nodes of the chunk index, headers.
constexpr std::uint64_t kMetadataSlackBytes = kMiB;

}  // namespace

struct H5Writer::State {
  StagedFile staged;
  hid_t file H5FEED_GUARDED_BY(hdf5_mutex) = H5I_INVALID_HID;
  std::map<std::string, hid_t> datasets H5FEED_GUARDED_BY(hdf5_mutex);

  State(std::filesystem::path target, bool overwrite) : staged(std::move(target), overwrite) {}

  [[noreturn]] void fail(const Hdf5Session& session, std::string_view what) const {
    throw FileError(fmt::format("{}: {}: {}", staged.target().string(), what, session.error()));
  }

  H5::DataSet dataset(const std::string& path) H5FEED_REQUIRES(hdf5_mutex) {
    const auto found = datasets.find(path);
    if (found == datasets.end()) {
      throw FileError(fmt::format("{}: no dataset {} was created", staged.target().string(), path));
    }
    return H5::DataSet(found->second);
  }

  // A write that fails for want of space leaves libhdf5 unable to close the file: 1.10 then crashes at
  // the latest when the process exits. So space is claimed before libhdf5 writes.
  void reserve(std::uint64_t data_bytes) H5FEED_REQUIRES(hdf5_mutex) {
    hsize_t file_bytes = 0;
    H5Fget_filesize(file, &file_bytes);
    staged.reserve(file_bytes + data_bytes + kMetadataSlackBytes);
  }

  // Every identifier, for closing outside the session.
  std::vector<hid_t> take_ids() {
    const MutexLock lock(hdf5_mutex);
    std::vector<hid_t> ids;
    for (const auto& [path, id] : datasets) ids.push_back(id);
    datasets.clear();
    if (file != H5I_INVALID_HID) ids.push_back(std::exchange(file, H5I_INVALID_HID));
    return ids;
  }
};

H5Writer::H5Writer(std::filesystem::path target, bool overwrite)
    : state_(std::make_unique<State>(std::move(target), overwrite)) {
  const Hdf5Session session;
  try {
    const H5::FileCreatPropList creation;
    forget_times(creation);
    const H5::FileAccPropList access;
    access.setLibverBounds(H5F_LIBVER_EARLIEST, H5F_LIBVER_V18);
    const H5::H5File file(state_->staged.temporary().string(), H5F_ACC_TRUNC, creation, access);
    state_->file = retain(file);
  } catch (const H5::Exception&) {
    state_->fail(session, "cannot be created");
  }
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
    const std::vector<hsize_t> shape = to_hsize(dataset.shape);
    const H5::DataSpace space =
        shape.empty() ? H5::DataSpace() : H5::DataSpace(static_cast<int>(shape.size()), shape.data());
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
  } catch (const H5::Exception&) {
    state_->fail(session, fmt::format("cannot write rows {}-{} of {}", first, first + count - 1, path));
  }
}

void H5Writer::write_attribute(const std::string& path, const std::string& name, const std::string& value) {
  const Hdf5Session session;
  state_->reserve(value.size());
  try {
    const H5::H5File file(state_->file);
    H5::StrType type(H5::PredType::C_S1, value.size() + 1);
    type.setCset(H5T_CSET_UTF8);
    const auto write = [&](const H5::H5Object& object) {
      const H5::Attribute attribute = object.createAttribute(name, type, H5::DataSpace());
      attribute.write(type, value.c_str());
    };
    if (file.childObjType(path) == H5O_TYPE_GROUP) {
      write(file.openGroup(path));
    } else {
      write(file.openDataSet(path));
    }
  } catch (const H5::Exception&) {
    state_->fail(session, fmt::format("cannot write the attribute {} of {}", name, path));
  }
}

void H5Writer::commit() {
  {
    const Hdf5Session session;
    if (H5Fflush(state_->file, H5F_SCOPE_LOCAL) < 0) state_->fail(session, "cannot be finished");
  }
  bool closed = true;
  for (const hid_t id : state_->take_ids()) closed = Hdf5Session::release(id) && closed;
  if (!closed) {
    throw FileError(
        fmt::format("{}: libhdf5 could not close it; check the storage", state_->staged.target().string()));
  }
  state_->staged.commit();
}

}  // namespace h5feed
