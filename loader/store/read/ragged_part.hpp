// SPDX-License-Identifier: Apache-2.0
// Samples that differ in length, as one file or one group brings them.
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

/// Rows of any length, of elements of one shape: numbers, or what follows the first dimension. Immutable and
/// thread-safe.
class RaggedPart {
 public:
  virtual ~RaggedPart() = default;
  RaggedPart(const RaggedPart&) = delete;
  RaggedPart& operator=(const RaggedPart&) = delete;

  /// "train.h5:/boxes", the start of messages.
  const std::string& place() const noexcept { return place_; }
  DType dtype() const noexcept { return dtype_; }
  /// Of one element.
  const std::vector<std::uint64_t>& element_shape() const noexcept { return element_shape_; }
  std::uint64_t element_bytes() const noexcept { return element_bytes_; }

  virtual std::uint64_t rows() const noexcept = 0;
  /// In elements.
  virtual std::uint64_t length(std::uint64_t row) const noexcept = 0;

  /// Reads a row into `out`, `length(row) * element_bytes()` long, in the host's byte order. Blocks. Throws
  /// FileError; ChunkError for what is no such row, naming it; std::bad_alloc.
  virtual ReadCost read(std::uint64_t row, std::span<std::byte> out) const = 0;

 protected:
  RaggedPart(std::string place, DType dtype, std::vector<std::uint64_t> element_shape);

 private:
  const std::string place_;
  const DType dtype_;
  const std::vector<std::uint64_t> element_shape_;
  std::uint64_t element_bytes_;
};

/// A dataset (N) of numbers of variable length: 16 bytes of memory a row. Values are read without libhdf5 and
/// its lock. Throws FileError; DatasetError where the references cannot be read directly; ChunkError for a
/// row that claims more bytes than its file has.
std::shared_ptr<const RaggedPart> open_vlen(const std::shared_ptr<H5File>& file, const VlenInfo& info,
                                            std::shared_ptr<const ByteSource> source,
                                            const ReaderSettings& settings);

/// One row: all of a dataset, whose first dimension is the length.
std::shared_ptr<const RaggedPart> as_ragged_row(std::shared_ptr<const ChunkReader> reader);

}  // namespace h5feed
