// SPDX-License-Identifier: Apache-2.0
// An HDF5 file opened for reading, metadata only. Everything that calls libhdf5 for reading lives
// behind this class and chunk_index.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/option_spelling.hpp"
#include "store/format/byte_source.hpp"
#include "store/format/dataset_info.hpp"
#include "store/hdf5/global_heap.hpp"

namespace h5feed {

/// One dataset of a file, numeric or not, as listed for error messages and `h5feed info`; or a damaged
/// object.
struct DatasetEntry {
  std::string path;                  ///< "/train/images"
  std::vector<std::uint64_t> shape;  ///< empty for a scalar
  std::string type_text;             ///< "u8", "variable-length", "string", "compound", "unreadable"
  bool numeric = false;              ///< `describe` accepts it
  bool plain = false;                ///< and its values are of the type that the file says
  /// Where libhdf5 cannot read the object: a complete error message with file, path, reason and next step.
  std::string problem = {};
  /// With `problem`: not known to be a dataset. It may be a group, whose datasets are then not listed, or not
  /// all of them.
  bool hides_others = false;
};

/// A dataset of numbers of variable length.
struct VlenInfo {
  /// Rows of `heap_format().reference_bytes()` bytes, `values_per_element` of them in one element of the
  /// file.
  DatasetInfo references;
  DType dtype = DType::u8;    ///< of the numbers
  bool byte_swapped = false;  ///< stored in the other byte order than the host's
};

/// Read-only handle. Takes no file lock (H5Pset_file_locking), so that files on NFS or files held by
/// a writer open. Thread-safe: all libhdf5 calls of the process happen under one mutex of ours,
/// because the C++ API of libhdf5 is not covered by the library's own lock. Methods block on it.
class H5File : public std::enable_shared_from_this<H5File> {
 public:
  /// Throws FileError (missing, unreadable, not HDF5, truncated, not closed by its writer) and
  /// VersionError.
  static std::shared_ptr<H5File> open(const std::filesystem::path& path);

  H5File(const H5File&) = delete;
  H5File& operator=(const H5File&) = delete;
  ~H5File();

  const std::filesystem::path& path() const noexcept { return path_; }

  /// The file's bytes, for reads that need no libhdf5.
  const std::shared_ptr<const ByteSource>& bytes() const noexcept;

  /// Throws FileError where the file was written or replaced since it was opened (by size, time of
  /// modification, device and inode): what is known of it may then be wrong. Takes no lock; one
  /// system call.
  void check_unchanged() const;

  /// Whether it was not, as far as can be told.
  bool unchanged() const noexcept;

  /// Every dataset reachable by hard links, in name order, each once. Objects that libhdf5 cannot open, and
  /// groups whose links it cannot list, are entries with a `problem`: they do not hide the others.
  std::vector<DatasetEntry> list_datasets() const;

  /// The entry of the one object at `path`, without a look at any other.
  DatasetEntry list_one(const std::string& path) const;

  /// Metadata of one dataset; `name` may lack the leading slash. Throws DatasetError: no such
  /// dataset (naming those that exist), a group, not numeric, variable-length. `option` is by what
  /// the user names such a dataset, for the hint `Try .data = "images"`. Throws FileError where libhdf5
  /// cannot open what is there.
  DatasetInfo describe(const std::string& name, const PathOption& option = {}) const;

  /// A one-dimensional dataset of numbers of variable length. Empty for anything else, and for what cannot be
  /// opened.
  std::optional<VlenInfo> describe_vlen(const std::string& name) const;

  /// The references of one of uint8 (or int8). Empty for anything else.
  std::optional<DatasetInfo> describe_ragged(const std::string& name) const;

  /// How this file refers to values of variable length. Throws FileError.
  HeapFormat heap_format() const;

  /// Where the bytes of a contiguous dataset begin, user block included; empty when none were ever
  /// written. Throws FileError.
  std::optional<std::uint64_t> contiguous_offset(const DatasetInfo& info) const;

  /// The stored bytes of one chunk, filters still applied, through H5Dread_chunk under the HDF5 mutex.
  struct StoredChunk {
    std::uint64_t bytes = 0;        ///< at the front of the buffer
    std::uint32_t filter_mask = 0;  ///< as in ChunkLocation, save that edge chunks are not marked
  };

  /// Reads a chunk of at most `max_bytes` into `raw`, which grows as needed. `offset` is in elements.
  /// Empty where libhdf5 finds no such chunk: it was never written, or its index entry is damaged.
  /// Throws FileError, and std::invalid_argument for data without filters, whose stored size libhdf5
  /// does not tell.
  std::optional<StoredChunk> read_stored_chunk(const DatasetInfo& info, std::span<const std::uint64_t> offset,
                                               std::uint64_t max_bytes, ByteBuffer& raw) const;

  /// Reads `count` rows from `first` on through H5Dread, converted to host byte order. The slow,
  /// always correct way: holds the HDF5 mutex for the whole read. `out.size()` must be
  /// `count * info.row_bytes()`. `chunk_cache_bytes` sizes libhdf5's own chunk cache for `info`,
  /// the least recently used chunk goes first; it takes effect the first time this dataset is read, and
  /// is held as long as this object lives. Throws FileError.
  void read_rows(const DatasetInfo& info, std::uint64_t first, std::uint64_t count, std::span<std::byte> out,
                 std::uint64_t chunk_cache_bytes = 0) const;

  /// Reads any hyperslab, as `read_rows`.
  void read_hyperslab(const DatasetInfo& info, std::span<const std::uint64_t> start,
                      std::span<const std::uint64_t> count, std::span<std::byte> out,
                      std::uint64_t chunk_cache_bytes = 0) const;

 private:
  friend class H5FileAccess;  // chunk_index.cpp: the HDF5 identifier, under the mutex
  struct State;
  H5File(std::filesystem::path path, std::unique_ptr<State> state);

  std::filesystem::path path_;
  std::unique_ptr<State> state_;
};

/// Whether libhdf5 can decode the filter itself or by a plugin, which it then loads. Blocks for the
/// HDF5 mutex.
bool libhdf5_has_filter(unsigned id);

/// Whether a libhdf5 call of this process has failed. Its exit handlers may then crash or print, as it leaves
/// objects behind where it gives up on a damaged file: a program that can should end by std::_Exit.
/// Lock-free.
bool libhdf5_has_failed() noexcept;

/// The libhdf5 in use.
struct LibHdf5 {
  std::string version;         ///< "1.10.8"
  std::string header_version;  ///< that h5feed was compiled with
  bool thread_safe = false;    ///< built with its global lock
  std::vector<std::string> plugin_folders;
};

/// Blocks for the HDF5 mutex.
LibHdf5 libhdf5_facts();

/// Throws VersionError unless the three numbers equal those of the headers h5feed was compiled with
/// (libhdf5 itself would end the process instead).
void check_hdf5_version(unsigned major, unsigned minor, unsigned release);

}  // namespace h5feed
