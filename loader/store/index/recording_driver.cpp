// SPDX-License-Identifier: Apache-2.0
#include "store/index/recording_driver.hpp"

#if !H5FEED_HAVE_CHUNK_ITER

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "store/driver/unlocked_driver.hpp"
#include "store/hdf5/hdf5_session.hpp"

namespace h5feed {
namespace {

struct RecordingFile : DrivenFile {
  RecordedRead last;
  unsigned reads = 0;
  std::function<void(std::span<const std::byte>)> metadata_watcher;
};

RecordingFile* recording(H5FD_t* file) noexcept {
  return static_cast<RecordingFile*>(reinterpret_cast<DrivenFile*>(file));
}

RecordingFile& recording(const H5::H5File& file) {
  void* handle = nullptr;
  if (H5Fget_vfd_handle(file.getId(), H5P_DEFAULT, &handle) < 0) {
    throw H5::FileIException("H5Fget_vfd_handle", "failed");
  }
  return *static_cast<RecordingFile*>(static_cast<DrivenFile*>(handle));
}

// H5FD_class_t has C callbacks: nothing may be thrown through them.
H5FD_t* open_file(const char* name, unsigned flags, hid_t, haddr_t) noexcept try {
  auto file = std::make_unique<RecordingFile>();
  return open_driven(*file, name, flags) ? &file.release()->base : nullptr;
} catch (const std::bad_alloc&) {
  return nullptr;
}

herr_t close_file(H5FD_t* file) noexcept {
  delete recording(file);
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) noexcept {
  // Every read is one of libhdf5's own: none are joined.
  *flags = H5FD_FEAT_DEFAULT_VFD_COMPATIBLE | H5FD_FEAT_SUPPORTS_SWMR_IO;
  return 0;
}

herr_t read(H5FD_t* base, H5FD_mem_t type, hid_t, haddr_t address, std::size_t size, void* buffer) noexcept {
  RecordingFile& file = *recording(base);
  if (type == H5FD_MEM_DRAW) {
    file.last = {address, size};
    ++file.reads;
    return 0;
  }
  const std::span<std::byte> out(static_cast<std::byte*>(buffer), size);
  if (!read_driven(file, address, out)) return -1;
  try {
    if (file.metadata_watcher) file.metadata_watcher(out);
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

H5FD_class_t driver_class() noexcept {
  H5FD_class_t driver = unlocked_driver_class();
  driver.name = "h5feed_recording";
  driver.open = open_file;
  driver.close = close_file;
  driver.cmp = nullptr;  // Each opening is a file of its own, with a metadata cache of its own
  driver.query = query;
  driver.read = read;
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
