// SPDX-License-Identifier: Apache-2.0
// Sessions for calls of libhdf5: its mutex, suppressed output and error reasons. Internal to store/.
#pragma once

#include <H5Cpp.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.hpp"

namespace h5feed {

/// Serializes every libhdf5 call of the process: libhdf5's own lock does not cover its C++ API, and a library
/// built without thread safety has none. Constant-initialized and never destroyed, so it works in any static
/// destructor.
extern Mutex hdf5_mutex;

/// Next step in messages about a damaged file.
inline constexpr std::string_view kRestore = "restore the file from a good copy";

/// Replaces libhdf5's error handler on this thread and restores it on destruction. Not movable.
class Hdf5ErrorHandler {
 public:
  /// Installs `handler`, called with `data`; null suppresses libhdf5's output.
  Hdf5ErrorHandler(H5E_auto2_t handler, void* data) noexcept;
  Hdf5ErrorHandler(const Hdf5ErrorHandler&) = delete;
  Hdf5ErrorHandler& operator=(const Hdf5ErrorHandler&) = delete;
  ~Hdf5ErrorHandler();

 private:
#ifndef H5_NO_DEPRECATED_SYMBOLS
  H5E_auto1_t previous_1_ = nullptr;
#endif
  H5E_auto2_t previous_2_ = nullptr;
  void* previous_data_ = nullptr;
};

/// Holds the HDF5 mutex and suppresses libhdf5's error output on this thread during its lifetime. At most one
/// per thread: functions that need one take it as an argument. The first session compares the library's
/// version with the headers before any other call.
class H5FEED_SCOPED_CAPABILITY Hdf5Session {
 public:
  /// Blocks on the mutex. Throws VersionError if the library's version is not that of the headers, and
  /// FileError once libhdf5 has shut down, as the process exits or since the program has called H5close.
  Hdf5Session() H5FEED_ACQUIRE(hdf5_mutex);
  Hdf5Session(const Hdf5Session&) = delete;
  Hdf5Session& operator=(const Hdf5Session&) = delete;
  ~Hdf5Session() H5FEED_RELEASE();

  /// Returns the innermost reason of the last libhdf5 call that failed, in one line.
  std::string error() const;

  /// Returns the innermost reason of the last failed call and the next step: "bad object header version
  /// number; restore the file from a good copy"; if the reason allows for it, also what to do if a newer
  /// library wrote the file.
  std::string error_and_cure() const;

  /// Drops a reference that `retain` took; returns false if libhdf5 failed. Blocks on the mutex. Does nothing
  /// once libhdf5 has shut down, which closes everything. Never throws, so destructors may call it.
  static bool release(hid_t id) noexcept H5FEED_EXCLUDES(hdf5_mutex);

 private:
  static herr_t record(hid_t stack, void* session) noexcept;

  MutexLock lock_;
  std::optional<Hdf5ErrorHandler> handler_;
  std::array<char, 512> error_ = {};  // Fixed size: the handler must not throw through C code
};

/// Keeps libhdf5 from loading filter plugins for its own lifetime unless `plugins_asked_for()`, and then
/// restores what the process had set. Filters that the process has registered stay. Callers hold a session;
/// keep it short, since other users of libhdf5 in the process cannot load plugins meanwhile.
class PluginsOff {
 public:
  PluginsOff() noexcept;
  PluginsOff(const PluginsOff&) = delete;
  PluginsOff& operator=(const PluginsOff&) = delete;
  ~PluginsOff();

 private:
  unsigned before_ = 0;  // What the process may load
  bool changed_ = false;
};

/// Limits libhdf5's metadata cache for files opened with `access`. By default it grows to 32 MiB when an
/// index is scanned once. Throws H5::Exception.
void limit_metadata_cache(const H5::FileAccPropList& access) H5FEED_REQUIRES(hdf5_mutex);

/// Lets libhdf5's metadata cache of an open file grow to 32 MiB for its own lifetime: the names of a large
/// group lie in its heap in no order, and within the limit of `limit_metadata_cache` each would be read from
/// storage, 64 KiB at a time. Callers hold a session. Does nothing where libhdf5 refuses.
class LargeMetadataCache {
 public:
  explicit LargeMetadataCache(hid_t file) H5FEED_REQUIRES(hdf5_mutex);
  LargeMetadataCache(const LargeMetadataCache&) = delete;
  LargeMetadataCache& operator=(const LargeMetadataCache&) = delete;
  ~LargeMetadataCache();

 private:
  hid_t file_;
  H5AC_cache_config_t before_ = {};
  bool changed_ = false;
};

/// Calls `accept_unused_bits` for files opened or created with `access`. Throws H5::Exception.
void read_unused_bits(const H5::FileAccPropList& access) H5FEED_REQUIRES(hdf5_mutex);

/// Limits how often libhdf5 reads metadata whose checksum is wrong in files opened with `access` beside a
/// SWMR writer, to half a second for each piece of metadata. libhdf5 doubles its pauses from one nanosecond
/// on, 100 times by default (H5Pset_metadata_read_attempts), so that it would never return from metadata that
/// a killed writer left half written. Throws H5::Exception.
void limit_read_attempts(const H5::FileAccPropList& access) H5FEED_REQUIRES(hdf5_mutex);

/// Makes libhdf5 write to the file what the program has written by it so far
/// (store/driver/unlocked_driver.hpp). Returns whether the program has the file open. Blocks. Throws
/// FileError if libhdf5 cannot write.
bool flush_for_program(const std::string& name) H5FEED_EXCLUDES(hdf5_mutex);

/// Opens a file for reading, without a lock and apart from the rest of the program: with `swmr_writer` as a
/// reader beside that writer. Returns an identifier for `Hdf5Session::release`, or H5I_INVALID_HID if libhdf5
/// refuses the file.
hid_t open_for_reading(const std::string& name, bool swmr_writer) H5FEED_REQUIRES(hdf5_mutex);

/// Returns whether a SWMR writer may change the file: `file` was opened beside it.
bool reads_beside_writer(const H5::H5File& file) H5FEED_REQUIRES(hdf5_mutex);

/// Makes libhdf5 read the metadata of `dataset` from the file again, which it may have cached before a SWMR
/// writer changed it. Throws H5::Exception.
void forget_metadata(const H5::DataSet& dataset) H5FEED_REQUIRES(hdf5_mutex);

/// Returns the identifier of `object` with one more reference, for owners that may outlive libhdf5: the C++
/// API's destructors print if they do. Release it with Hdf5Session::release.
hid_t retain(const H5::IdComponent& object);

}  // namespace h5feed
