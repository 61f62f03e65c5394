// SPDX-License-Identifier: Apache-2.0
// The exceptions h5feed throws. Every message is one line: what, where, next step.
#pragma once

#include <stdexcept>
#include <string>

#include "h5feed/export.hpp"

namespace h5feed {

/// Base class of all h5feed exceptions. `what()` is one line of UTF-8 that names the file, dataset, chunk or
/// option concerned and says what to do about it.
class H5FEED_EXPORT Error : public std::runtime_error {
 public:
  /// Creates an exception with `message`, whose control characters are escaped, as names in a file may
  /// contain them.
  explicit Error(const std::string& message);
};

/// A file cannot be opened, is not HDF5, is truncated, or cannot be read or written.
class H5FEED_EXPORT FileError : public Error {
 public:
  using Error::Error;
};

/// The process that reads a file's metadata (`Isolation::process`) crashed over the file, took longer or more
/// memory than allowed, or answered with nonsense. The message names the file. The next call starts a new
/// process.
class H5FEED_EXPORT IsolationError : public FileError {
 public:
  using FileError::FileError;
};

/// A dataset is missing or cannot provide samples: no such name, not numeric, a length other than that of its
/// target, or a shape that needs an explicit layout.
class H5FEED_EXPORT DatasetError : public Error {
 public:
  using Error::Error;
};

/// The stored bytes of a chunk or an encoded image cannot be decoded or fail their checksum; the message
/// names the coordinates of the chunk and the samples in it. Also thrown for an image that needs more memory
/// than `memory_budget_bytes` allows, and if more samples cannot be read than `max_bad_share` allows.
class H5FEED_EXPORT ChunkError : public Error {
 public:
  using Error::Error;
};

/// An option has an invalid value, or two options exclude each other. The command `h5feed` then exits with 2.
class H5FEED_EXPORT OptionError : public Error {
 public:
  using Error::Error;
};

/// `DataLoaderOptions::timeout` elapsed before the next batch was ready. The batch is not lost: a later
/// `next()` returns it.
class H5FEED_EXPORT TimeoutError : public Error {
 public:
  using Error::Error;
};

/// A GPU cannot be used or failed: no driver or one too old, no such device, out of memory, or a call that
/// returned an error. The message names the call, the device and, if known, the batch. If the message says
/// that the context is lost, no later call on that device can succeed.
class H5FEED_EXPORT DeviceError : public Error {
 public:
  using Error::Error;
};

/// A saved `LoaderState` is truncated, damaged, or of another dataset, order or sharding.
class H5FEED_EXPORT StateError : public Error {
 public:
  using Error::Error;
};

/// The libhdf5 loaded at run time is not the version that h5feed was compiled against.
class H5FEED_EXPORT VersionError : public Error {
 public:
  using Error::Error;
};

}  // namespace h5feed
