// SPDX-License-Identifier: Apache-2.0
// The exceptions h5feed throws. Every message is one line: what, where, next step.
#pragma once

#include <stdexcept>
#include <string>

#include "h5feed/export.hpp"

namespace h5feed {

/// Base of all h5feed exceptions, so that one `catch` is enough. `what()` is one line of UTF-8 that
/// names the file, dataset, chunk or option concerned and says what to do about it.
class H5FEED_EXPORT Error : public std::runtime_error {
 public:
  /// Control characters in `message`, which names in a file may contain, are escaped.
  explicit Error(const std::string& message);
};

/// A file cannot be opened, is not HDF5, is truncated, or a read or write of it fails.
class H5FEED_EXPORT FileError : public Error {
 public:
  using Error::Error;
};

/// A dataset is missing, or cannot serve as samples: no such name, not numeric, of another length
/// than its target, of a shape whose layout has to be stated.
class H5FEED_EXPORT DatasetError : public Error {
 public:
  using Error::Error;
};

/// The stored bytes of one chunk cannot be decoded or fail their checksum. The message names the
/// chunk's coordinates and the samples in it.
class H5FEED_EXPORT ChunkError : public Error {
 public:
  using Error::Error;
};

/// An option has a value that cannot work, or two options exclude each other. The program maps it
/// to exit code 2.
class H5FEED_EXPORT OptionError : public Error {
 public:
  using Error::Error;
};

/// `DataLoaderOptions::timeout` passed before the next batch was ready. The batch is not lost: a
/// later `next()` returns it.
class H5FEED_EXPORT TimeoutError : public Error {
 public:
  using Error::Error;
};

/// A GPU cannot be used, or failed while it was: no driver or one too old, no such device, out of memory,
/// a call that returned an error. The message names the call, the device and, where there is one, the
/// batch. Where the message says that the context is lost, no later call on that device can succeed.
class H5FEED_EXPORT DeviceError : public Error {
 public:
  using Error::Error;
};

/// A saved `LoaderState` is truncated, damaged, or not of this dataset, order and sharding.
class H5FEED_EXPORT StateError : public Error {
 public:
  using Error::Error;
};

/// The libhdf5 loaded at run time is not the one h5feed was compiled against.
class H5FEED_EXPORT VersionError : public Error {
 public:
  using Error::Error;
};

}  // namespace h5feed
