// SPDX-License-Identifier: Apache-2.0
// Samples that are rows of a sparse matrix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "h5feed/sparse.hpp"
#include "store/sparse/sparse_reader.hpp"

namespace h5feed {

/// The sparse matrix of a dataset, and how its rows are delivered. Immutable and thread-safe.
struct SparseData {
  std::shared_ptr<const SparseReader> reader;  ///< The reader of `DatasetState::data`
  SparseFormat format = SparseFormat::csr;
  /// Index of each stored column in a dense sample; −1 if it is not delivered. Empty: all, in their order.
  std::vector<std::int32_t> places = {};

  /// Returns the bytes of the values and columns of a row, on average.
  std::uint64_t mean_row_bytes() const noexcept {
    const std::uint64_t value_bytes = size_of(reader->info().dtype) + sizeof(std::int32_t);
    return reader->num_values() / reader->info().rows() * value_bytes;
  }

  /// Writes `row` to `out` as a dense sample of the reader's `info()`. Values of the same column are added,
  /// as SciPy does.
  void expand(const SparseReader::Row& row, std::byte* out) const;
};

}  // namespace h5feed
