// SPDX-License-Identifier: Apache-2.0
#include "store/index/recording_driver.hpp"

#if !H5FEED_HAVE_CHUNK_ITER

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "store/format/byte_source.hpp"
#include "store/hdf5/hdf5_session.hpp"

namespace h5feed {
namespace {

// libhdf5 sees the base only, which must come first.
struct RecordingFile {
  H5FD_t base = {};
  std::shared_ptr<const ByteSource> bytes;
  haddr_t end_of_allocation = 0;
  RecordedRead last;
  unsigned reads = 0;
  std::function<void(std::span<const std::byte>)> metadata_watcher;
};

constexpr haddr_t kMaxAddress = std::numeric_limits<std::int64_t>::max();

// H5FD_class_t has C callbacks: nothing may be thrown through them.
H5FD_t* open_file(const char* name, unsigned flags, hid_t, haddr_t) noexcept {
  if ((flags & (H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE)) != 0) return nullptr;
  try {
    auto file = std::make_unique<RecordingFile>();
    file->bytes = open_file_source(name);
    return &file.release()->base;
  } catch (const std::exception&) {
    return nullptr;
  }
}

RecordingFile* recording(H5FD_t* file) noexcept { return reinterpret_cast<RecordingFile*>(file); }
const RecordingFile* recording(const H5FD_t* file) noexcept {
  return reinterpret_cast<const RecordingFile*>(file);
}

RecordingFile& recording(const H5::H5File& file) {
  void* handle = nullptr;
  if (H5Fget_vfd_handle(file.getId(), H5P_DEFAULT, &handle) < 0) {
    throw H5::FileIException("H5Fget_vfd_handle", "failed");
  }
  return *static_cast<RecordingFile*>(handle);
}

herr_t close_file(H5FD_t* file) noexcept {
  delete recording(file);
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) noexcept {
  // Without the first libhdf5 refuses files whose free space is managed in pages, without the second those
  // that a SWMR writer has open.
  *flags = H5FD_FEAT_DEFAULT_VFD_COMPATIBLE | H5FD_FEAT_SUPPORTS_SWMR_IO;
  return 0;
}

haddr_t get_end_of_allocation(const H5FD_t* file, H5FD_mem_t) noexcept {
  return recording(file)->end_of_allocation;
}

herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t address) noexcept {
  recording(file)->end_of_allocation = address;
  return 0;
}

haddr_t get_end_of_file(const H5FD_t* file, H5FD_mem_t) noexcept { return recording(file)->bytes->size(); }

herr_t get_handle(H5FD_t* file, hid_t, void** handle) noexcept {
  *handle = recording(file);
  return 0;
}

herr_t read(H5FD_t* base, H5FD_mem_t type, hid_t, haddr_t address, std::size_t size, void* buffer) noexcept {
  RecordingFile& file = *recording(base);
  if (type == H5FD_MEM_DRAW) {
    file.last = {address, size};
    ++file.reads;
    return 0;
  }
  try {
    const std::span<std::byte> out(static_cast<std::byte*>(buffer), size);
    file.bytes->read(address, out);
    if (file.metadata_watcher) file.metadata_watcher(out);
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

herr_t refuse_write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, std::size_t, const void*) noexcept { return -1; }

H5FD_class_t driver_class() noexcept {
  H5FD_class_t driver = {};
  driver.name = "h5feed_recording";
  driver.maxaddr = kMaxAddress;
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.open = open_file;
  driver.close = close_file;
  driver.query = query;
  driver.get_eoa = get_end_of_allocation;
  driver.set_eoa = set_end_of_allocation;
  driver.get_eof = get_end_of_file;
  driver.get_handle = get_handle;
  driver.read = read;
  driver.write = refuse_write;
  constexpr H5FD_mem_t kTypeMap[] = H5FD_FLMAP_DICHOTOMY;
  static_assert(std::size(kTypeMap) == H5FD_MEM_NTYPES);
  std::copy(std::begin(kTypeMap), std::end(kTypeMap), driver.fl_map);
  return driver;
}

}  // namespace

H5::H5File open_recorded(const H5::H5File& named) {
  // Registered for the life of the library, which unregisters it itself.
  static const H5FD_class_t driver = driver_class();
  static const hid_t id = H5FDregister(&driver);
  const H5::FileAccPropList access;
  limit_metadata_cache(access);
  access.setDriver(id, nullptr);
  read_unused_bits(access);
  const bool swmr_writer = reads_beside_writer(named);
  if (swmr_writer) limit_read_attempts(access);
  const unsigned flags = H5F_ACC_RDONLY | (swmr_writer ? H5F_ACC_SWMR_READ : 0U);
  return {named.getFileName(), flags, H5::FileCreatPropList::DEFAULT, access};
}

std::optional<RecordedRead> take_recorded_read(const H5::H5File& file) {
  RecordingFile& recorded = recording(file);
  const bool one = recorded.reads == 1;
  recorded.reads = 0;
  if (!one) return std::nullopt;
  return recorded.last;
}

void watch_metadata_reads(const H5::H5File& file, std::function<void(std::span<const std::byte>)> watcher) {
  recording(file).metadata_watcher = std::move(watcher);
}

}  // namespace h5feed

#endif
