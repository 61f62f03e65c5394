// SPDX-License-Identifier: Apache-2.0
// The one way into libhdf5: its mutex, silence, and what went wrong. Internal to this folder.
#pragma once

#include <H5Cpp.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.hpp"

namespace h5feed {

/// Serializes every libhdf5 call of the process: the C++ API is not covered by libhdf5's own lock,
/// and a library built without thread safety has none. Constant-initialized and never destroyed, so
/// that it works in any static destructor.
extern Mutex hdf5_mutex;

/// The next step where a file is damaged.
inline constexpr std::string_view kRestore = "restore the file from a good copy";

/// Replaces what libhdf5 does on errors, for this thread and its own lifetime. Not movable.
class Hdf5ErrorHandler {
 public:
  /// A null `handler` keeps libhdf5 silent.
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

/// Holds the HDF5 mutex and keeps libhdf5 from printing errors on this thread, both for its own
/// lifetime. One at a time a thread: functions that need one take it as an argument. The first
/// session compares the library's version with the headers before any other call.
class H5FEED_SCOPED_CAPABILITY Hdf5Session {
 public:
  /// Blocks for the mutex. Throws VersionError, and FileError once the process is exiting and
  /// libhdf5 has shut down.
  Hdf5Session() H5FEED_ACQUIRE(hdf5_mutex);
  Hdf5Session(const Hdf5Session&) = delete;
  Hdf5Session& operator=(const Hdf5Session&) = delete;
  ~Hdf5Session() H5FEED_RELEASE();

  /// Innermost reason of the last call that failed in this session, one line.
  std::string error() const;

  /// The same and the next step: "bad object header version number; restore the file from a good copy", with
  /// what to do if a newer library wrote the file where the reason allows for that.
  std::string error_and_cure() const;

  /// Drops a reference that `retain` took. Blocks for the mutex; does nothing once libhdf5 has shut
  /// down, which closed everything. Never throws, so that destructors may call it: false where
  /// libhdf5 failed.
  static bool release(hid_t id) noexcept H5FEED_EXCLUDES(hdf5_mutex);

 private:
  static herr_t record(hid_t stack, void* session) noexcept;

  MutexLock lock_;
  std::optional<Hdf5ErrorHandler> handler_;
  std::array<char, 512> error_ = {};  // fixed: the handler must not throw through C code
};

/// The identifier of `object` with one more reference, for owners that may outlive libhdf5: the C++
/// API's destructors print when they do.
hid_t retain(const H5::IdComponent& object);

}  // namespace h5feed
