// SPDX-License-Identifier: Apache-2.0
// Order in which to visit chunks so that a dataset's values come out in row-major order within bounded
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "store/read/chunk_reader.hpp"

namespace h5feed::cli {

/// The part of a dataset that one chunk covers, clipped to the extent, in elements. A scalar counts as one
/// element of one dimension.
struct ChunkBox {
  std::vector<std::uint64_t> start;
  std::vector<std::uint64_t> count;
};

/// One visit to a chunk: its rows [first_row, end_row) belong in the slab.
struct ChunkVisit {
  std::uint64_t chunk = 0;
  std::uint64_t first_row = 0;
  std::uint64_t end_row = 0;
  bool first = true;         ///< first visit to this chunk
  bool opens_slab = false;   ///< first visit of its slab
  bool closes_slab = false;  ///< last visit of its slab: the slab is complete
};

/// Throws std::invalid_argument unless the chunks are `regular()`: their numbers would tell wrong places.
/// Open such datasets through `on_grid` (store/read/mapped_reader.hpp).
void require_grid(const ChunkReader& reader);

/// Visits the chunks of a dataset band by band; a band is all chunks that hold the same rows. A band is
/// filled in slabs of whole rows that follow each other in row-major order. Usually a band is one slab; if it
/// exceeds the memory, its chunks are visited once for every slab. "Rows" are along the first dimension with
/// more than one element. For one thread, except where stated.
class ChunkWalk {
 public:
  /// Slabs take at most `slab_bytes`, or one row if that is larger. Copies what it needs from `reader`, whose
  /// chunks must be `regular()`.
  ChunkWalk(const ChunkReader& reader, std::uint64_t slab_bytes);

  /// Returns the next visit; empty at the end.
  std::optional<ChunkVisit> next();

  /// Number of visits to all chunks; larger than the number of chunks if bands take several slabs.
  std::uint64_t visits() const noexcept;
  /// Returns the bytes of the slab that `visit` belongs to. Thread-safe.
  std::size_t slab_bytes(const ChunkVisit& visit) const noexcept;
  /// Bytes of the largest slab.
  std::uint64_t max_slab_bytes() const noexcept { return slab_rows_ * row_bytes_; }

  /// Returns the part of the dataset that `chunk` covers. Thread-safe.
  ChunkBox box(std::uint64_t chunk) const;

  /// Copies the rows of `visit` to their place in `slab`. `values` holds exactly the elements of `box`.
  /// Thread-safe for distinct visits of a slab.
  void place(const ChunkVisit& visit, const ChunkBox& box, std::span<const std::byte> values,
             std::span<std::byte> slab) const;

 private:
  std::uint64_t band_end() const noexcept;

  std::vector<std::uint64_t> shape_;
  std::vector<std::uint64_t> chunk_shape_;
  std::vector<std::uint64_t> grid_;
  std::size_t element_bytes_ = 1;
  std::size_t dimension_ = 0;  // dimension of the rows
  std::uint64_t num_chunks_ = 0;
  std::uint64_t chunks_per_band_ = 1;
  std::uint64_t row_bytes_ = 1;
  std::uint64_t slab_rows_ = 1;

  // Position of `next`.
  std::uint64_t band_ = 0;
  std::uint64_t first_row_ = 0;
  std::uint64_t chunk_in_band_ = 0;
};

}  // namespace h5feed::cli
