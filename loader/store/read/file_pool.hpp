// SPDX-License-Identifier: Apache-2.0
// Pool of open files, for datasets of many files: reads them with a bounded number of descriptors, which all
// datasets of the process share.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/open_pool.hpp"
#include "store/format/byte_source.hpp"
#include "store/read/reader_factories.hpp"
#include "store/stage/file_places.hpp"

namespace h5feed {

/// An object by the file that it is in.
struct PlacedObject {
  std::shared_ptr<H5File> file;
  std::string path;
};

/// Opens sources and readers that are closed while others are in use and reopened when needed. Not
/// thread-safe: call `source` and `reader` from one thread at a time. The returned objects are thread-safe
/// and may outlive the pool.
class FilePool {
 public:
  /// Creates a pool that shares with all others of the process what is open: at most 32 readers through
  /// libhdf5, and files for direct reads up to half of the process's descriptor limit (16 to 16,384), and
  /// fewer where opening one fails because other code has too many open.
  FilePool() : FilePool(FilePlaces()) {}
  /// Creates such a pool for files that are read where `places` says. With `isolation`, that process calls
  /// libhdf5 for them.
  explicit FilePool(FilePlaces places, std::shared_ptr<ReaderProcess> isolation = nullptr);
  /// Creates a pool of its own with at most `most_files` files open for direct reads and at most
  /// `most_readers` readers open through libhdf5.
  FilePool(std::size_t most_files, std::size_t most_readers);

  /// Opens a file where `places()` says. Blocks while it is copied. Throws as `H5File::open` and `StageDir`.
  std::shared_ptr<H5File> open(const std::filesystem::path& path);

  /// Returns the object that `path` of `file` leads to, in `file` or, behind external links, in another file,
  /// which is opened as `open` does. Throws DatasetError if a link leads nowhere or through more than 16
  /// files, and FileError that names the link if the other file is missing or cannot be opened.
  PlacedObject follow_links(std::shared_ptr<H5File> file, const std::string& path);

  /// Returns the process that calls libhdf5 for the files; null if this process does.
  const std::shared_ptr<ReaderProcess>& isolation() const noexcept { return isolation_; }

  /// Returns where files are read.
  FilePlaces& places() noexcept { return places_; }

  /// Returns the bytes of a file; the same object for the same path while one is in use. Throws FileError if
  /// the file cannot be opened; later reads throw FileError if it was replaced or truncated since.
  std::shared_ptr<const ByteSource> source(const std::filesystem::path& path);

  /// Opens the dataset `info` of `file` for reading, like `open_chunk_reader`, without keeping `file` open.
  /// Throws FileError and DatasetError.
  std::shared_ptr<const ChunkReader> reader(const std::shared_ptr<H5File>& file, DatasetInfo info,
                                            const ReaderSettings& settings);

  /// Returns the number of files open for direct reads now, here and in the pools that share them. For tests.
  std::size_t num_open() const { return files_->num_open(); }

 private:
  // Opens the file that a link leads into. Links that follow each other often lead into the same file.
  std::shared_ptr<H5File> open_linked(const std::filesystem::path& path);

  FilePlaces places_;
  const std::shared_ptr<ReaderProcess> isolation_;
  std::shared_ptr<OpenPool<const ByteSource>> files_;
  std::shared_ptr<OpenPool<const ChunkReader>> readers_;
  std::unordered_map<std::string, std::weak_ptr<const ByteSource>> sources_;
  std::shared_ptr<H5File> linked_;  // The last file that a link led into
};

}  // namespace h5feed
