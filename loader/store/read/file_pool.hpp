// SPDX-License-Identifier: Apache-2.0
// The files of a dataset that has many: read with a bounded number of descriptors.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/open_pool.hpp"
#include "store/format/byte_source.hpp"
#include "store/read/reader_factories.hpp"

namespace h5feed {

/// Gives sources and readers that close themselves while others are in use. `source` and `reader` are for one
/// thread at a time; what they return is thread-safe, and keeps what it needs of the pool.
class FilePool {
 public:
  /// At most `most_files` files open for direct reads, and `most_readers` through libhdf5; by default half
  /// of the process's limit for descriptors, 16,384 at most, and 32.
  FilePool();
  FilePool(std::size_t most_files, std::size_t most_readers);

  /// The bytes of a file, the same object for the same path. Throws FileError where it cannot be opened; a
  /// later read throws it where the file was replaced or cut short since.
  std::shared_ptr<const ByteSource> source(const std::filesystem::path& path);

  /// Opens the dataset of `info` for reading, as open_chunk_reader, without keeping `file` open.
  std::shared_ptr<const ChunkReader> reader(const std::shared_ptr<H5File>& file, DatasetInfo info,
                                            const ReaderSettings& settings);

  /// Files open now for direct reads. For tests.
  std::size_t num_open() const { return files_->num_open(); }

 private:
  std::shared_ptr<OpenPool<const ByteSource>> files_;
  std::shared_ptr<OpenPool<const ChunkReader>> readers_;
  std::unordered_map<std::string, std::weak_ptr<const ByteSource>> sources_;
};

}  // namespace h5feed
