// SPDX-License-Identifier: Apache-2.0
// The list of chunks that cannot be read or decoded, as a file of tab-separated values.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "base/files/file_descriptor.hpp"
#include "base/mutex.hpp"
#include "store/read/stored_chunks.hpp"

namespace h5feed {

/// A chunk, or a value of variable length, that cannot be read or decoded.
struct BadChunk {
  ChunkPlace place;    ///< Where it is stored
  std::string reason;  ///< What is wrong with it, a clause: "is corrupt: the checksum does not match"
};

/// Returns the entry of chunk number `chunk`, of which `reader` said `error`. Throws std::bad_alloc.
BadChunk bad_chunk(const ChunkReader& reader, std::uint64_t chunk, std::string_view error);

/// First line of a list, without the newline: the names of its columns.
inline constexpr std::string_view kBadListHeader = "file\tdataset\tchunk\taddress\tfilters\tsamples\treason";

/// Returns one line of a list, without the newline: the absolute path of the file, the dataset, the
/// coordinates of the chunk ("12,0,0"), its address and filters ("-" if unknown or none), the rows of the
/// dataset that it holds ("1200-1299"), the reason. Control characters are escaped. Throws std::bad_alloc.
std::string bad_list_line(const BadChunk& chunk);

/// A file that entries are appended to. Several processes on one host may append to one file. Thread-safe.
class BadList {
 public:
  /// Opens `path`, or creates it with the header. Throws OptionError if it cannot be opened for writing or is
  /// another kind of file, and FileError if there is no space for the header, without leaving a new file;
  /// both name the option `option`.
  BadList(const std::filesystem::path& path, std::string_view option);

  /// Appends an entry unless the file had it when it was opened, or it was appended before. If that fails,
  /// logs a warning once.
  void add(const BadChunk& chunk) H5FEED_EXCLUDES(mutex_);

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  BadList(const std::filesystem::path& path, std::string_view option, bool created);

  const std::filesystem::path path_;
  const FileDescriptor file_;
  Mutex mutex_;
  std::set<std::string> lines_ H5FEED_GUARDED_BY(mutex_);
  bool failed_ H5FEED_GUARDED_BY(mutex_) = false;
};

}  // namespace h5feed
