// SPDX-License-Identifier: Apache-2.0
// A dataset as numbered chunks that any thread may read and decode.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/row_layout.hpp"
#include "base/spare_memory.hpp"
#include "store/filters/filters.hpp"
#include "store/format/dataset_info.hpp"

namespace h5feed {

/// Cost of one read: nanoseconds of the calling thread, and bytes read from the file.
struct ReadCost {
  std::uint64_t read_ns = 0;     ///< Nanoseconds spent reading
  std::uint64_t decode_ns = 0;   ///< Nanoseconds spent decoding
  std::uint64_t bytes_read = 0;  ///< Bytes read from the file; through H5Dread: decoded bytes
  bool fallback = false;         ///< Read by H5Dread under the HDF5 mutex

  /// Adds the cost of another read.
  ReadCost& operator+=(const ReadCost& other) noexcept {
    read_ns += other.read_ns;
    decode_ns += other.decode_ns;
    bytes_read += other.bytes_read;
    fallback = fallback || other.fallback;
    return *this;
  }
};

/// Location of a row.
struct RowOrigin {
  std::string file;       ///< Path of the file
  std::string path;       ///< Path of the dataset in `file`
  std::uint64_t row = 0;  ///< Row number in the dataset
  /// Number of the image among all, if rows are windows of images; else empty.
  std::optional<std::uint64_t> image = {};
};

/// Buffers of `ChunkReader::read_chunk`, one object per thread. Not thread-safe.
struct ReadScratch {
  ByteBuffer raw;        ///< Stored bytes of a chunk
  DecodeScratch decode;  ///< State of the filters
  ByteBuffer part;       ///< A decoded chunk of a dataset that a reader puts together with others
  /// Lends what a decode needs beyond `ChunkReader::scratch_bytes`; must outlive the scratch. Null: such
  /// decodes are not bounded.
  SpareMemory* spare = nullptr;
};

struct JoinedPart;

/// Reads the chunks of one dataset, or of several concatenated ones (store/read/joined_reader.hpp), numbered
/// in row-major order of the chunk grid. Datasets that are not chunked are split into runs of whole rows of
/// about 1 MiB, so callers always see chunks. Immutable and thread-safe. Created by `open_chunk_reader`
/// (store/read/reader_factories.hpp).
class ChunkReader {
 public:
  virtual ~ChunkReader() = default;

  /// Returns the metadata of the dataset.
  const DatasetInfo& info() const noexcept { return info_; }

  /// Returns the parts, in order, of a reader that joins several (store/read/joined_reader.hpp); else an
  /// empty list.
  virtual std::vector<JoinedPart> parts() const;

  /// Returns the filters that reading decodes: those of the dataset, or of the datasets that the reader puts
  /// together, one of each number. Throws std::bad_alloc.
  virtual std::vector<FilterSpec> decoded_filters() const { return info_.filters; }

  /// Returns the chunk shape in elements, of the same rank as the dataset; for joined datasets the largest.
  /// Chunks at the edge are also delivered in full size; elements outside the dataset are unspecified.
  const std::vector<std::uint64_t>& chunk_shape() const noexcept { return chunk_shape_; }
  /// Returns the number of chunks along each dimension.
  const std::vector<std::uint64_t>& grid() const noexcept { return grid_; }
  /// Returns the total number of chunks.
  std::uint64_t num_chunks() const noexcept { return num_chunks_; }
  /// Returns whether chunk c is cell c of a grid of `chunk_shape()`. The chunks of joined datasets may differ
  /// in height; `rows()` tells which rows each has, and `on_grid` (store/read/mapped_reader.hpp) evens them.
  bool regular() const noexcept {
    return chunk_shape_.empty() || (rows_.regular() && rows_.rows_per_chunk() == chunk_shape_.front());
  }
  /// Returns which rows are in which chunk along the grid's first dimension.
  const RowLayout& rows() const noexcept { return rows_; }
  /// Returns the decoded bytes of every chunk; for joined datasets the maximum.
  std::uint64_t chunk_bytes() const noexcept { return chunk_bytes_; }
  /// Returns the largest stored size of a chunk in bytes, which `ReadScratch::raw` grows to.
  std::uint64_t max_stored_bytes() const noexcept { return max_stored_bytes_; }
  /// Returns the memory in bytes that one thread needs in `read_chunk` in addition to `out`, except what it
  /// borrows from `ReadScratch::spare`.
  virtual std::uint64_t scratch_bytes() const noexcept = 0;
  /// Returns whether reads avoid libhdf5.
  virtual bool direct() const noexcept = 0;
  /// Returns why reads go through libhdf5, in a few words; empty if `direct()`.
  virtual std::string fallback_reason() const = 0;

  /// Reads and decodes chunk number `chunk` into `out` (`chunk_bytes()` long) in host byte order; chunks
  /// never written get the fill value. Blocks. Throws FileError on I/O errors and ChunkError on corrupt
  /// bytes, both naming file, dataset, chunk coordinates and samples; std::invalid_argument if there is no
  /// such chunk or `out` is too small.
  virtual ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const = 0;

  /// Returns the bytes that `fetch_chunk` reads from the file, to split `read_chunk` for prefetching. 0 if
  /// there is nothing to fetch: the chunk was never written, or there is no direct path.
  virtual std::uint64_t stored_bytes(std::uint64_t chunk) const = 0;

  /// Returns whether the chunk's stored bytes are its values already: `read_chunk` then reads straight into
  /// `out` and needs no scratch.
  virtual bool stored_decoded(std::uint64_t chunk) const = 0;

  /// Reads the chunk's stored bytes into `raw` (`stored_bytes(chunk)` long) without decoding them. Blocks.
  /// Throws FileError that names file, dataset, chunk and samples; std::logic_error if `stored_bytes(chunk)`
  /// is always 0 for this reader.
  virtual ReadCost fetch_chunk(std::uint64_t chunk, std::span<std::byte> raw) const = 0;

  /// Decodes what `fetch_chunk` read into `out` (`chunk_bytes()` long) in host byte order. Throws ChunkError
  /// on corrupt bytes, naming file, dataset, chunk and samples.
  virtual ReadCost decode_chunk(std::uint64_t chunk, std::span<const std::byte> raw, std::span<std::byte> out,
                                ReadScratch& scratch) const = 0;

  /// Reads rows [first, first + count), all in one chunk, straight into `outs`, filling one after the other;
  /// their total size must be the rows' size. Only for unfiltered data in host byte order whose rows are
  /// contiguous in the file: check `rows_readable()` first. Blocks. Throws FileError on I/O errors, and
  /// std::invalid_argument for rows or sizes that do not fit.
  virtual ReadCost read_rows(std::uint64_t first, std::uint64_t count,
                             std::span<const std::span<std::byte>> outs) const = 0;
  /// Reads rows [first, first + count), all in one chunk, straight into `out`, which has their size. Requires
  /// `rows_readable()`. Blocks. Throws like the overload for several buffers.
  ReadCost read_rows(std::uint64_t first, std::uint64_t count, std::span<std::byte> out) const {
    return read_rows(first, count, std::span<const std::span<std::byte>>(&out, 1));
  }
  /// Returns whether `read_rows` can be called.
  virtual bool rows_readable() const noexcept = 0;

  /// Hints that `read_rows` will soon be called for these rows, all in one chunk. Does not wait for storage.
  virtual void hint_rows(std::uint64_t first, std::uint64_t count) const noexcept = 0;

  /// Returns whether `read_rows` of this row would be served from memory, as far as is known. Does not block.
  virtual bool row_resident(std::uint64_t row) const noexcept = 0;

  /// Returns the file, dataset and row number that a row is read from. Throws std::bad_alloc.
  virtual RowOrigin origin(std::uint64_t row) const {
    return {.file = info_.file, .path = info_.path, .row = row};
  }

  /// Returns the text that every error about the chunk begins with: "train.h5:/images: chunk (12,0,0,0)
  /// (samples 1200-1299)".
  virtual std::string describe_chunk(std::uint64_t chunk) const;

 protected:
  /// Initializes all members from `info` and the chunk shape, with chunks of equal height.
  ChunkReader(DatasetInfo info, std::vector<std::uint64_t> chunk_shape);
  /// Initializes all members from `info`, the chunk shape and the mapping of rows to chunks, for chunks of
  /// differing height.
  ChunkReader(DatasetInfo info, std::vector<std::uint64_t> chunk_shape, RowLayout rows);

  DatasetInfo info_;
  std::vector<std::uint64_t> chunk_shape_;
  std::vector<std::uint64_t> grid_;
  RowLayout rows_;
  std::uint64_t num_chunks_ = 0;
  std::uint64_t chunk_bytes_ = 0;
  std::uint64_t max_stored_bytes_ = 0;
};

}  // namespace h5feed
