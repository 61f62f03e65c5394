// SPDX-License-Identifier: Apache-2.0
// Writes HDF5 files chunk by chunk; the file appears under its final name only at commit().
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/format/dataset_info.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/write/attributes.hpp"

namespace h5feed {

/// Describes a dataset to create. An empty `chunk_shape` makes it contiguous, without filters.
struct NewDataset {
  std::string path;  ///< Absolute path; missing groups are created
  DType dtype = DType::u8;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> chunk_shape;  ///< In elements; empty: contiguous
  std::vector<FilterSpec> filters;         ///< In the order in which they are applied
  std::vector<std::byte> fill_value = {};  ///< One element in host byte order; empty: zero
  bool grows = false;  ///< Starts with 0 rows, extended by `set_rows` up to `shape`; needs chunks
};

/// Writes a temporary file next to the target and renames it on `commit`. Thread-safe: libhdf5 calls are
/// serialized by the process-wide HDF5 mutex, so encode chunks before the call. Methods block on that mutex.
/// The file is readable by HDF5 1.8 and deterministic: equal calls in equal order produce equal bytes (no
/// time stamps).
class H5Writer {
 public:
  /// Creates the temporary file. Throws FileError if the target exists (unless `overwrite`), its directory is
  /// not writable or storage is full.
  H5Writer(std::filesystem::path target, bool overwrite);

  /// Creates the temporary file for a copy of `like`, with the same user block and the same creation
  /// properties of the root group. `latest` permits formats that HDF5 1.8 cannot read: it keeps properties
  /// unknown to 1.8 and lets libhdf5 use its newest formats. Throws FileError if the target exists (unless
  /// `overwrite`), its directory is not writable or storage is full.
  H5Writer(std::filesystem::path target, bool overwrite, const H5File& like, bool latest);

  H5Writer(const H5Writer&) = delete;
  H5Writer& operator=(const H5Writer&) = delete;
  /// Closes the file, and removes the temporary file unless `commit` succeeded.
  ~H5Writer();

  /// Creates a dataset and missing groups. Throws FileError.
  void create_dataset(const NewDataset& dataset);

  /// Stores one encoded chunk (H5Dwrite_chunk). `offset` is in elements and a multiple of the chunk shape.
  /// `filter_mask` marks the filters that were skipped. Throws FileError, also if storage is full.
  void write_chunk(const std::string& path, std::span<const std::uint64_t> offset,
                   std::span<const std::byte> encoded, std::uint32_t filter_mask = 0);

  /// Writes rows [first, first + count) through H5Dwrite, for contiguous datasets; `rows` is in host byte
  /// order. Throws FileError.
  void write_rows(const std::string& path, std::uint64_t first, std::uint64_t count,
                  std::span<const std::byte> rows);

  /// Creates a dataset of rows of differing length (variable-length sequences of `dtype`). Its chunks hold
  /// the references to `rows_per_chunk` rows each. It starts with 0 rows and can be extended to `most_rows`
  /// by `set_rows`. Throws FileError.
  void create_ragged(const std::string& path, DType dtype, std::uint64_t most_rows,
                     std::uint64_t rows_per_chunk);

  /// Writes the elements of rows [first, first + rows.size()) of a dataset created by `create_ragged`, in
  /// host byte order. Throws FileError.
  void write_ragged(const std::string& path, std::uint64_t first,
                    std::span<const std::span<const std::byte>> rows);

  /// Extends a dataset that can grow to `rows` rows, which must be more than before. Throws FileError.
  void set_rows(const std::string& path, std::uint64_t rows);

  /// Writes an attribute of a dataset or group, replacing one of the same name. Throws FileError.
  void write_attribute(const std::string& path, const NamedAttribute& attribute);

  /// Flushes and closes the temporary file, which may then be opened for reading. Nothing can be added
  /// afterwards. Throws FileError.
  void close();

  /// Returns the path of the file before `commit`.
  const std::filesystem::path& temporary() const noexcept;

  /// Closes the file, syncs it to storage and renames it onto the target. Blocks. Throws FileError; the
  /// target is then unchanged, unless the sync of its directory failed after the rename.
  void commit();

 private:
  friend class H5WriterAccess;  // Access to State for the other sources of this folder
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace h5feed
