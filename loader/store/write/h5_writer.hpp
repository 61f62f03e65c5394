// SPDX-License-Identifier: Apache-2.0
// Writes HDF5 files chunk by chunk; nothing appears under the final name until commit().
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

/// A dataset to create. An empty `chunk_shape` makes it contiguous, without filters.
struct NewDataset {
  std::string path;  ///< absolute; missing groups are created
  DType dtype = DType::u8;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> chunk_shape;
  std::vector<FilterSpec> filters;
  std::vector<std::byte> fill_value = {};  ///< one element in the host's byte order; empty: zero
  bool grows = false;  ///< begins without rows, for `set_rows`; `shape` is the most it may come to; chunked
};

/// Writes to a temporary file beside the target. Thread-safe: libhdf5 calls are serialized by the
/// process-wide HDF5 mutex, so compress outside and hand over encoded chunks. The file is readable
/// by HDF5 1.8 and, for equal calls in equal order, equal byte for byte (no time stamps).
class H5Writer {
 public:
  /// Creates the temporary file. Throws FileError where the target exists (unless `overwrite`) or
  /// its directory is not writable.
  H5Writer(std::filesystem::path target, bool overwrite);

  /// As above, for a copy of `like`: its user block and the creation properties of its root group are
  /// kept. `latest` gives up that HDF5 1.8 can read the file, keeps the properties that it does not know,
  /// and lets libhdf5 use its newest formats.
  H5Writer(std::filesystem::path target, bool overwrite, const H5File& like, bool latest);

  H5Writer(const H5Writer&) = delete;
  H5Writer& operator=(const H5Writer&) = delete;
  /// Removes the temporary file unless `commit` succeeded.
  ~H5Writer();

  /// Throws FileError.
  void create_dataset(const NewDataset& dataset);

  /// Stores one chunk that is already encoded (H5Dwrite_chunk). `offset` is in elements, a multiple
  /// of the chunk shape. Throws FileError (a full disk among them).
  void write_chunk(const std::string& path, std::span<const std::uint64_t> offset,
                   std::span<const std::byte> encoded, std::uint32_t filter_mask = 0);

  /// Writes whole rows through H5Dwrite, for contiguous datasets. Throws FileError.
  void write_rows(const std::string& path, std::uint64_t first, std::uint64_t count,
                  std::span<const std::byte> rows);

  /// Creates a dataset of rows of differing length (variable-length sequences of `dtype`), in chunks of
  /// `rows_per_chunk` rows that hold where each row's bytes lie. It begins without rows and may come to
  /// `most_rows`. Throws FileError.
  void create_ragged(const std::string& path, DType dtype, std::uint64_t most_rows,
                     std::uint64_t rows_per_chunk);

  /// Writes the elements of rows [first, first + rows.size()) of a dataset that `create_ragged` made.
  /// Throws FileError.
  void write_ragged(const std::string& path, std::uint64_t first,
                    std::span<const std::span<const std::byte>> rows);

  /// Lets a dataset that grows have `rows` rows, more than before. Throws FileError.
  void set_rows(const std::string& path, std::uint64_t rows);

  /// Writes an attribute of a dataset or group, in place of one of that name. Throws FileError.
  void write_attribute(const std::string& path, const NamedAttribute& attribute);

  /// Flushes and closes the temporary file, which may then be opened for reading. Nothing can be added
  /// any more. Throws FileError.
  void close();

  /// Where the file is until `commit`.
  const std::filesystem::path& temporary() const noexcept;

  /// Closes, fsyncs and renames onto the target. Throws FileError; the target is then untouched.
  void commit();

 private:
  friend class H5WriterAccess;  // object_copy.cpp: the HDF5 identifiers, under the mutex
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace h5feed
