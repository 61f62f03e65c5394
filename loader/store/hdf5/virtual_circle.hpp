// SPDX-License-Identifier: Apache-2.0
// Virtual datasets that are, by others or at once, their own source: libhdf5 follows them until its stack
// ends.
#pragma once

#include <string>
#include <vector>

#include "h5feed/error.hpp"
#include "store/hdf5/h5_file.hpp"

namespace h5feed {

/// Virtual datasets of virtual datasets, and none that is its own source.
inline constexpr unsigned kMaxVirtualDepth = 16;

/// On its way out of virtual datasets that refer to each other too deep.
class TooDeepVirtual : public FileError {
 public:
  explicit TooDeepVirtual(const DatasetInfo& deepest);

  /// "file:path" of those it has left, the deepest first.
  std::vector<std::string> places;
};

/// What comes of it, a whole sentence: nothing is to be added in front.
class VirtualCircle : public FileError {
 public:
  using FileError::FileError;
};

/// For `error` that comes out of `info`, at `depth`, which is 1 for the dataset that was asked for: throws it
/// again, or the VirtualCircle once the deepest has come again or none is left.
[[noreturn]] void rethrow_too_deep(TooDeepVirtual error, const DatasetInfo& info, unsigned depth);

/// Before libhdf5 reads the virtual dataset `info` of `file`: throws VirtualCircle where it is its own
/// source, or lies too deep, and FileError or DatasetError where a source is missing: libhdf5 would give fill
/// values for it. Opens the files of all; blocks on the HDF5 mutex.
void refuse_circle(const H5File& file, const DatasetInfo& info);

}  // namespace h5feed
