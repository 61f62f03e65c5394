// SPDX-License-Identifier: Apache-2.0
// Samples of differing length from one file or one group.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/file_pool.hpp"
#include "store/read/reader_factories.hpp"

namespace h5feed {

/// Rows of variable length whose elements have one shape: numbers, or arrays of the dimensions after the
/// first. Immutable and thread-safe.
class RaggedPart {
 public:
  virtual ~RaggedPart() = default;
  RaggedPart(const RaggedPart&) = delete;
  RaggedPart& operator=(const RaggedPart&) = delete;

  /// Returns "train.h5:/boxes", which error messages begin with.
  const std::string& place() const noexcept { return place_; }
  /// Returns the type of the numbers.
  DType dtype() const noexcept { return dtype_; }
  /// Returns the shape of one element; empty if it is a number.
  const std::vector<std::uint64_t>& element_shape() const noexcept { return element_shape_; }
  /// Returns the bytes of one element.
  std::uint64_t element_bytes() const noexcept { return element_bytes_; }

  /// Returns the number of rows.
  virtual std::uint64_t rows() const noexcept = 0;
  /// Returns the length of a row in elements.
  virtual std::uint64_t length(std::uint64_t row) const noexcept = 0;

  /// Reads a row into `out`, which must have `length(row) * element_bytes()` bytes, in host byte order.
  /// Blocks. Throws FileError on I/O errors; ChunkError, naming the row, if its stored bytes are invalid;
  /// std::bad_alloc.
  virtual ReadCost read(std::uint64_t row, std::span<std::byte> out) const = 0;

 protected:
  /// Stores `place`, the dataset's name in messages, and the type and shape of an element.
  RaggedPart(std::string place, DType dtype, std::vector<std::uint64_t> element_shape);

 private:
  const std::string place_;
  const DType dtype_;
  const std::vector<std::uint64_t> element_shape_;
  std::uint64_t element_bytes_;
};

/// Opens a dataset (N) of numbers of variable length. Uses 16 bytes of memory per row. Reads values without
/// libhdf5 and its lock. `source` replaces the file's bytes, null: `file->bytes()`. Blocks. Throws FileError;
/// DatasetError if the references cannot be read directly; ChunkError for a row that claims more bytes than
/// its file has.
std::shared_ptr<const RaggedPart> open_vlen(const std::shared_ptr<H5File>& file, const VlenInfo& info,
                                            std::shared_ptr<const ByteSource> source,
                                            const ReaderSettings& settings);

/// Returns a part with a single row: the whole dataset of `reader`, whose first dimension is the length.
std::shared_ptr<const RaggedPart> as_ragged_row(std::shared_ptr<const ChunkReader> reader);

}  // namespace h5feed
