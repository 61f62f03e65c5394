// SPDX-License-Identifier: Apache-2.0
// Detects virtual datasets that are directly or indirectly their own source: libhdf5 would follow them until
// the stack overflows.
#pragma once

#include <string>
#include <vector>

#include "h5feed/error.hpp"
#include "store/hdf5/h5_file.hpp"

namespace h5feed {

/// Maximum nesting depth of virtual datasets.
inline constexpr unsigned kMaxVirtualDepth = 16;

/// Thrown while virtual datasets nested too deep are left one by one; `rethrow_too_deep` collects their
/// names.
class TooDeepVirtual : public FileError {
 public:
  /// Starts with the deepest dataset.
  explicit TooDeepVirtual(const DatasetInfo& deepest);

  /// "file:path" of the datasets left so far, the deepest first.
  std::vector<std::string> places;
};

/// Thrown for virtual datasets that are their own source or nested too deep. The message is complete; do not
/// prefix it.
class VirtualCircle : public FileError {
 public:
  using FileError::FileError;
};

/// Handles `error` when it leaves the dataset `info` at `depth` (1 for the dataset that was asked for):
/// throws VirtualCircle if `info` is the deepest dataset again or `depth` is 1, else `error` with `info`
/// added.
[[noreturn]] void rethrow_too_deep(TooDeepVirtual error, const DatasetInfo& info, unsigned depth);

/// Checks a virtual dataset before libhdf5 reads it. Throws VirtualCircle if it is its own source or nested
/// too deep; FileError or DatasetError if a source is missing, for which libhdf5 would return fill values.
/// Opens all source files; blocks on the HDF5 mutex.
void refuse_circle(const H5File& file, const DatasetInfo& info);

}  // namespace h5feed
