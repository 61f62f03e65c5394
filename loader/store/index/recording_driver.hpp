// SPDX-License-Identifier: Apache-2.0
// A file driver for libhdf5 that reads metadata and only records reads of raw data: how chunk
// addresses are learned from libraries without H5Dchunk_iter. Internal to chunk_index.cpp.
#pragma once

#include <H5Cpp.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

// H5Dchunk_iter came with 1.10.10, 1.12.3 and 1.14.0.
#if H5_VERSION_GE(1, 14, 0) || (H5_VERSION_GE(1, 12, 3) && !H5_VERSION_GE(1, 13, 0)) || \
    (H5_VERSION_GE(1, 10, 10) && !H5_VERSION_GE(1, 11, 0))
#define H5FEED_HAVE_CHUNK_ITER 1
#else
#define H5FEED_HAVE_CHUNK_ITER 0
#endif

#if !H5FEED_HAVE_CHUNK_ITER

#include "store/hdf5/hdf5_session.hpp"

namespace h5feed {

/// Place of a raw-data read. The address is absolute: libhdf5 adds the user block before it asks.
struct RecordedRead {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

/// Opens the file of `named` again by the driver, with a metadata cache of its own. Callers hold an
/// Hdf5Session. Throws H5::Exception.
H5::H5File open_recorded(const H5::H5File& named) H5FEED_REQUIRES(hdf5_mutex);

/// The raw-data read since the last call, if there was exactly one; forgets it. `file` was opened
/// through the driver. Throws H5::Exception.
std::optional<RecordedRead> take_recorded_read(const H5::H5File& file);

/// Calls `watcher` with the bytes of every metadata read from now on: a node of a version 1 B-tree is one
/// read, in the order in which libhdf5 walks them. An exception fails the read. `file` was opened through the
/// driver; an empty watcher ends it. Throws H5::Exception.
void watch_metadata_reads(const H5::H5File& file, std::function<void(std::span<const std::byte>)> watcher);

}  // namespace h5feed

#endif
