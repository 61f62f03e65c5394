// SPDX-License-Identifier: Apache-2.0
// An HDF5 file opened for reading. Everything that calls libhdf5 for reading is in store/hdf5 and
// store/index.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/option_spelling.hpp"
#include "store/format/byte_source.hpp"
#include "store/format/dataset_info.hpp"
#include "store/hdf5/global_heap.hpp"
#include "store/isolation/sent_dataset.hpp"

namespace h5feed {

class ReaderProcess;

/// Describes one dataset of a file, numeric or not, for error messages and `h5feed info`; or a damaged
/// object.
struct DatasetEntry {
  std::string path;                  ///< Absolute path: "/train/images"
  std::vector<std::uint64_t> shape;  ///< Empty for a scalar
  std::string type_text;             ///< Type: "u8", "variable-length", "string", "compound", "unreadable"
  bool numeric = false;              ///< `H5File::describe` accepts it
  bool plain = false;                ///< Numeric, with values of exactly the type in the file
  /// Complete error message with file, path, reason and next step, if libhdf5 cannot read the object; else
  /// empty.
  std::string problem = {};
  /// With `problem`: the object may be a group, whose datasets are not listed or not all listed.
  bool hides_others = false;
};

/// Describes a dataset of numbers of variable length.
struct VlenInfo {
  /// The references as a dataset of rows of `H5File::heap_format().reference_bytes()` bytes each;
  /// `references.values_per_element` is that number.
  DatasetInfo references;
  DType dtype = DType::u8;    ///< Type of the numbers
  bool byte_swapped = false;  ///< Stored in the opposite of host byte order
};

/// Where a path leads: to an object of the file, nowhere, or into another file.
struct PathEnd {
  bool found = false;      ///< The object is in this file
  std::string other_file;  ///< Name of the other file, as the link has it; empty if the path leads into none
  std::string other_path;  ///< Path of the object in the other file
};

/// A link of a file to an object of another file.
struct ExternalLink {
  std::string path;        ///< Absolute path of the link: "/train/images"
  std::string other_file;  ///< Name of the other file, as the link has it
  std::string other_path;  ///< Path of the object in the other file
};

template <>
struct WireMembers<ExternalLink> {
  static auto of(auto& v) { return std::tie(v.path, v.other_file, v.other_path); }
};

template <>
struct WireMembers<PathEnd> {
  static auto of(auto& v) { return std::tie(v.found, v.other_file, v.other_path); }
};

template <>
struct WireMembers<DatasetEntry> {
  static auto of(auto& v) {
    return std::tie(v.path, v.shape, v.type_text, v.numeric, v.plain, v.problem, v.hides_others);
  }
};

template <>
struct WireMembers<VlenInfo> {
  static auto of(auto& v) { return std::tie(v.references, v.dtype, v.byte_swapped); }
};

/// Read-only handle of an HDF5 file. Takes no file lock (store/driver/unlocked_driver.hpp), so files on NFS
/// or held by a writer can be opened. Thread-safe: all libhdf5 calls of the process are serialized by one
/// mutex of h5feed, because libhdf5's own lock does not cover its C++ API. Methods block on it.
class H5File : public std::enable_shared_from_this<H5File> {
 public:
  struct State;  ///< Internal to store/

  /// Opens a file, also beside its SWMR writer. Throws FileError (missing, unreadable, not HDF5, truncated,
  /// not closed by a writer of another kind, with a metadata cache image) and VersionError.
  static std::shared_ptr<H5File> open(const std::filesystem::path& path) { return open(path, path); }
  /// Opens `place`, a copy of the file `path`, which messages and `path()` name. With `isolation`, that
  /// process calls libhdf5, and every method throws IsolationError if it fails. Throws like the overload for
  /// one path.
  static std::shared_ptr<H5File> open(const std::filesystem::path& path, const std::filesystem::path& place,
                                      const std::shared_ptr<ReaderProcess>& isolation = nullptr);

  /// Opens `place` like `open`, in a process that was started for that: a file with a metadata cache image as
  /// well, over which libhdf5 may end the process.
  static std::shared_ptr<H5File> open_at_risk(const std::filesystem::path& path,
                                              const std::filesystem::path& place);

  H5File(const H5File&) = delete;
  H5File& operator=(const H5File&) = delete;
  ~H5File();

  /// Returns the path of the file for messages, and for the names that it refers to others by.
  const std::filesystem::path& path() const noexcept { return path_; }

  /// Returns the path that is read: `path()`, or that of a copy.
  const std::filesystem::path& place() const noexcept { return place_; }
  /// Returns whether a copy is read. What it says of other files must be looked up next to `path()`, and
  /// libhdf5 must not read data from it that is in other files.
  bool is_copy() const noexcept { return place_ != path_; }

  /// Returns the process that calls libhdf5 for this file; null if this process does.
  std::shared_ptr<ReaderProcess> isolation() const noexcept;

  /// Returns the file's bytes, for reads without libhdf5.
  const std::shared_ptr<const ByteSource>& bytes() const noexcept;

  /// Returns whether the file was marked as open by a SWMR writer (single writer, multiple readers) when it
  /// was opened. Such a writer may append rows at any moment, or have been killed.
  bool swmr_writer() const noexcept;

  /// Returns the size in bytes when the file was opened; with a SWMR writer, the size now. Throws FileError.
  std::uint64_t size() const;

  /// Throws FileError if the file was written or replaced since it was opened (by size, modification time,
  /// device and inode): its metadata may then be outdated. A file that was removed counts as unchanged, and
  /// one with a SWMR writer, which moves nothing, as long as it is the same and has not become shorter. Takes
  /// no lock; one system call.
  void check_unchanged() const;

  /// Returns false if the file is known to have been written or replaced since it was opened; true if it was
  /// removed or cannot be checked. Takes no lock; one system call.
  bool unchanged() const noexcept;

  /// Lists every dataset reachable by hard links, in name order, each once. Objects that libhdf5 cannot open,
  /// and groups whose links it cannot list, are entries with a `problem` and do not hide the others.
  std::vector<DatasetEntry> list_datasets() const;

  /// Lists the links into other files, in name order, without opening these. What `list_datasets` lists as a
  /// problem is left out.
  std::vector<ExternalLink> list_external_links() const;

  /// Returns the entry of the object at `path` without examining any other.
  DatasetEntry list_one(const std::string& path) const;

  /// Returns where the path `name` leads, over links on the way, without opening another file.
  PathEnd end_of(const std::string& name) const;

  /// Returns the metadata of one dataset; `name` may lack the leading slash. Throws DatasetError if there is
  /// no such dataset (naming those that exist), or it is a group, not numeric or variable-length; FileError
  /// if libhdf5 cannot open the object. `option` is the option by which the user names the dataset, for the
  /// hint `Try .data = "images"`.
  DatasetInfo describe(const std::string& name, const PathOption& option = {}) const;

  /// Describes a one-dimensional dataset of numbers of variable length. Empty for anything else and for
  /// objects that cannot be opened.
  std::optional<VlenInfo> describe_vlen(const std::string& name) const;

  /// Describes the references of a one-dimensional variable-length dataset of uint8 or int8, such as encoded
  /// images. Empty for anything else.
  std::optional<DatasetInfo> describe_ragged(const std::string& name) const;

  /// Returns the format of references to variable-length values in this file. Throws FileError.
  HeapFormat heap_format() const;

  /// Returns the offset in the file, user block included, of a contiguous dataset's data; empty if none was
  /// ever written. Throws FileError.
  std::optional<std::uint64_t> contiguous_offset(const DatasetInfo& info) const;

  /// Size and filter mask of a chunk read by `read_stored_chunk`, with its filters still applied.
  struct StoredChunk {
    std::uint64_t bytes = 0;        ///< Bytes at the front of the buffer
    std::uint32_t filter_mask = 0;  ///< As in ChunkLocation, but edge chunks are not marked
  };

  /// Returns `libhdf5_has_filter(id)` of the process that reads the file.
  bool has_filter(unsigned id) const;

  /// Reads the stored bytes of one chunk, at most `max_bytes`, into `raw`, which grows as needed, by
  /// H5Dread_chunk. `offset` is in elements. Returns empty if libhdf5 finds no such chunk: it was never
  /// written, or its index entry is damaged. Holds the HDF5 mutex. Throws FileError; std::invalid_argument
  /// for data without filters, whose stored size libhdf5 does not report.
  std::optional<StoredChunk> read_stored_chunk(const DatasetInfo& info, std::span<const std::uint64_t> offset,
                                               std::uint64_t max_bytes, ByteBuffer& raw) const;

  /// Reads rows [first, first + count) through H5Dread, converted to host byte order. Slow, but works for
  /// every dataset: holds the HDF5 mutex for the whole read. `out.size()` must be `count * info.row_bytes()`.
  /// `chunk_cache_bytes` sizes libhdf5's chunk cache of the dataset, which evicts the least recently used
  /// chunk; it takes effect at the first read of the dataset and is kept as long as this object. Throws
  /// FileError.
  void read_rows(const DatasetInfo& info, std::uint64_t first, std::uint64_t count, std::span<std::byte> out,
                 std::uint64_t chunk_cache_bytes = 0) const;

  /// Reads the hyperslab of `count` elements per dimension from `start` on through H5Dread, converted to host
  /// byte order, under the HDF5 mutex. `out` must have the hyperslab's size. `chunk_cache_bytes` is as in
  /// `read_rows`. Throws FileError.
  void read_hyperslab(const DatasetInfo& info, std::span<const std::uint64_t> start,
                      std::span<const std::uint64_t> count, std::span<std::byte> out,
                      std::uint64_t chunk_cache_bytes = 0) const;

 private:
  friend class H5FileAccess;  // Access to the HDF5 identifier, under the mutex
  H5File(std::filesystem::path path, std::filesystem::path place, std::unique_ptr<State> state);
  static std::shared_ptr<H5File> open_with(const std::filesystem::path& path,
                                           const std::filesystem::path& place,
                                           const std::shared_ptr<ReaderProcess>& isolation, bool at_risk);

  std::filesystem::path path_;
  std::filesystem::path place_;
  std::unique_ptr<State> state_;
};

template <>
struct WireMembers<H5File::StoredChunk> {
  static auto of(auto& v) { return std::tie(v.bytes, v.filter_mask); }
};

/// Returns whether libhdf5 can decode the filter: itself, as the process has registered it, or by a plugin,
/// which it then loads. Plugins count only if HDF5_PLUGIN_PATH is set. Blocks on the HDF5 mutex.
bool libhdf5_has_filter(unsigned id);

/// Returns whether the user asked for libhdf5's filter plugins, which are code that a file makes it load:
/// HDF5_PLUGIN_PATH is set and not empty. Without it, libhdf5 would look for them in a folder that it was
/// built with.
bool plugins_asked_for() noexcept;

/// Keeps libhdf5 from loading filter plugins in this process unless `plugins_asked_for()`. For programs of
/// h5feed's own, before their first call of libhdf5: the host of a library decides itself.
void keep_plugins_off() noexcept;

/// Returns whether a libhdf5 call of this process has failed. libhdf5 leaves objects behind when it gives up
/// on a damaged file, and its exit handlers may then crash or print: programs that can should exit by
/// std::_Exit. Lock-free.
bool libhdf5_has_failed() noexcept;

/// Facts about the libhdf5 in use.
struct LibHdf5 {
  std::string version;         ///< Version: "1.10.8"
  std::string header_version;  ///< Version of the headers that h5feed was compiled with
  bool thread_safe = false;    ///< Built with its global lock
  std::vector<std::string>
      plugin_folders;  ///< Folders searched for filter plugins; none unless HDF5_PLUGIN_PATH is set
};

/// Returns facts about the libhdf5 in use. Blocks on the HDF5 mutex.
LibHdf5 libhdf5_facts();

/// Throws VersionError unless the version numbers equal those of the headers that h5feed was compiled with
/// (libhdf5 itself would abort the process).
void check_hdf5_version(unsigned major, unsigned minor, unsigned release);

}  // namespace h5feed
