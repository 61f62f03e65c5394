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
#include "store/filters/filters.hpp"
#include "store/format/dataset_info.hpp"

namespace h5feed {

/// What one `read_chunk` cost, in nanoseconds of its own thread and bytes taken from the file.
struct ReadCost {
  std::uint64_t read_ns = 0;
  std::uint64_t decode_ns = 0;
  std::uint64_t bytes_read = 0;
  bool fallback = false;  ///< went through H5Dread under the HDF5 mutex
};

/// Where a row lies.
struct RowOrigin {
  std::string file;
  std::string path;       ///< of the dataset
  std::uint64_t row = 0;  ///< in it
  /// Where rows are windows of images: which image among all, and where in it. Else unset.
  std::optional<std::uint64_t> image = {};
  std::uint64_t y = 0;
  std::uint64_t x = 0;
};

/// Per-thread buffers of `read_chunk`. Not thread-safe.
struct ReadScratch {
  ByteBuffer raw;
  DecodeScratch decode;
};

struct JoinedPart;

/// The chunks of one dataset, or of several one after the other (store/read/joined_reader.hpp), numbered in
/// row-major order of the chunk grid. Datasets that are not chunked are cut into runs of whole rows of about
/// 1 MiB, so that everything above sees chunks only. Immutable and thread-safe. `open_chunk_reader`
/// (store/read/reader_factories.hpp) makes one.
class ChunkReader {
 public:
  virtual ~ChunkReader() = default;

  const DatasetInfo& info() const noexcept { return info_; }

  /// Where the reader joins several: their parts, in order (store/read/joined_reader.hpp); else empty.
  virtual std::vector<JoinedPart> parts() const;

  /// Chunk extent in elements, same rank as the dataset; of several datasets the largest. Chunks at the edge
  /// are delivered full size as well; elements outside the extent are unspecified.
  const std::vector<std::uint64_t>& chunk_shape() const noexcept { return chunk_shape_; }
  const std::vector<std::uint64_t>& grid() const noexcept { return grid_; }
  std::uint64_t num_chunks() const noexcept { return num_chunks_; }
  /// Rows of the dataset in the chunks of the grid's first dimension.
  const RowLayout& rows() const noexcept { return rows_; }
  /// Decoded bytes of every chunk; of several datasets the most.
  std::uint64_t chunk_bytes() const noexcept { return chunk_bytes_; }
  /// Largest stored size of a chunk: what `ReadScratch::raw` grows to.
  std::uint64_t max_stored_bytes() const noexcept { return max_stored_bytes_; }
  /// Memory one thread needs in `read_chunk` beside `out`.
  virtual std::uint64_t scratch_bytes() const noexcept = 0;
  /// Whether reads avoid libhdf5.
  virtual bool direct() const noexcept = 0;
  /// Why not, in a few words; empty when `direct`.
  virtual std::string fallback_reason() const = 0;

  /// Reads and decodes chunk number `chunk` into `out` (`chunk_bytes()` long) in host byte order;
  /// chunks never written take the fill value. Blocks. Throws FileError on I/O errors and ChunkError
  /// on corrupt bytes, both naming file, dataset, chunk coordinates and samples.
  virtual ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const = 0;

  /// The first half of `read_chunk` apart, for reading ahead: bytes that `fetch_chunk` takes from the
  /// file. 0 where there is nothing to fetch: a chunk never written, or no direct path.
  virtual std::uint64_t stored_bytes(std::uint64_t chunk) const = 0;

  /// Whether those bytes are the chunk's values already: `read_chunk` then reads straight into `out` and
  /// needs no scratch.
  virtual bool stored_decoded(std::uint64_t chunk) const = 0;

  /// Reads the stored bytes into `raw` (`stored_bytes(chunk)` long). Blocks. Throws FileError as
  /// `read_chunk`.
  virtual ReadCost fetch_chunk(std::uint64_t chunk, std::span<std::byte> raw) const = 0;

  /// The second half: `out` from what `fetch_chunk` read. Throws ChunkError as `read_chunk`.
  virtual ReadCost decode_chunk(std::uint64_t chunk, std::span<const std::byte> raw, std::span<std::byte> out,
                                ReadScratch& scratch) const = 0;

  /// For unfiltered data in host byte order whose rows are contiguous in the file: reads rows
  /// [first, first + count), which lie in one chunk, straight into `outs`, filling one after the other;
  /// together they have the rows' size. Check `rows_readable()` first. Throws as `read_chunk`.
  virtual ReadCost read_rows(std::uint64_t first, std::uint64_t count,
                             std::span<const std::span<std::byte>> outs) const = 0;
  ReadCost read_rows(std::uint64_t first, std::uint64_t count, std::span<std::byte> out) const {
    return read_rows(first, count, std::span<const std::span<std::byte>>(&out, 1));
  }
  virtual bool rows_readable() const noexcept = 0;

  /// A hint that `read_rows` will come for these rows of one chunk soon. Does not wait for the storage.
  virtual void hint_rows(std::uint64_t first, std::uint64_t count) const noexcept = 0;

  /// Whether `read_rows` of this row would be served from memory, as far as is known. Does not wait.
  virtual bool row_resident(std::uint64_t row) const noexcept = 0;

  /// File, dataset and row that a row comes from. Throws std::bad_alloc.
  virtual RowOrigin origin(std::uint64_t row) const {
    return {.file = info_.file, .path = info_.path, .row = row};
  }

  /// "train.h5:/images: chunk (12,0,0,0) (samples 1200-1299)", the start of every error about it.
  virtual std::string describe_chunk(std::uint64_t chunk) const;

 protected:
  /// Fills the members below from `info` and the chunk extent.
  ChunkReader(DatasetInfo info, std::vector<std::uint64_t> chunk_shape);
  /// The same for rows that are dealt to chunks otherwise.
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
