// SPDX-License-Identifier: Apache-2.0
// Whether the chunks at the end of a dataset are still where they were.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "base/mutex.hpp"
#include "h5feed/error.hpp"
#include "store/format/byte_source.hpp"
#include "store/format/dataset_info.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/index/chunk_index.hpp"

namespace h5feed {

/// Watches the chunks with the last rows of a dataset that may grow. A program that appends rows fills those
/// chunks, and with filters they no longer fit where they were: libhdf5 writes them to another place, and the
/// next chunk to the old one. All other chunks stay where they are while rows are appended. Thread-safe.
class LastChunks {
 public:
  /// Returns a watch over the last chunks of the dataset `info` of `file`, whose index is `index`; null if
  /// they do not move: all are full, have no filters, or cannot grow, or the file is a copy.
  static std::shared_ptr<const LastChunks> watch(const H5File& file, const DatasetInfo& info,
                                                 const ChunkIndex& index);

  /// Throws FileError if bytes of chunk number `chunk` that were just read may be another's: the file has
  /// changed since it was opened and the chunk was moved, or the file can no longer be read. Costs a stat(2)
  /// for the last chunks, and a walk over the index where the file has changed. Blocks.
  void check(std::uint64_t chunk) const {
    if (chunk >= first_) check_last(chunk);
  }

 private:
  // Where the last chunks are in one state of the file.
  struct Listed {
    FileIdentity file;
    std::vector<ChunkLocation> places;
  };

  LastChunks(const H5File& file, DatasetInfo info, std::uint64_t first, Listed opened);

  void check_last(std::uint64_t chunk) const H5FEED_EXCLUDES(mutex_);
  Listed listed() const H5FEED_EXCLUDES(mutex_);
  std::vector<ChunkLocation> places_now() const;
  FileError may_be_others(std::string_view why) const;

  const DatasetInfo info_;
  const std::filesystem::path path_, place_;
  const std::shared_ptr<ReaderProcess> isolation_;
  const std::uint64_t first_;  // Number of the first of the last chunks
  const Listed opened_;
  mutable Mutex mutex_;
  mutable Listed listed_ H5FEED_GUARDED_BY(mutex_);  // In the state that the file was last seen in
};

}  // namespace h5feed
