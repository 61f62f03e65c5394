// SPDX-License-Identifier: Apache-2.0
// Builds the part of a batch that holds sparse rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "batch/row_kernel.hpp"
#include "flow/resolve/resolve_options.hpp"
#include "flow/values/conversion.hpp"
#include "h5feed/batch.hpp"
#include "store/sparse/sparse_data.hpp"

namespace h5feed {

/// Lays out sparse rows in batches, and copies them there. Immutable and thread-safe.
class SparseBatch {
 public:
  /// Borrows its arguments, which must outlive it; `conversion` is that of the CPU. Throws std::bad_alloc.
  SparseBatch(const SparseData& sparse, const DeliveryFormat& format, const Conversion& conversion);

  /// Returns the memory that a batch of these samples needs, in bytes. Columns and offsets have the type of
  /// `format`, or a wider one if the samples have more values than those of the largest batch.
  std::size_t bytes(const std::vector<std::int64_t>& samples) const;

  /// Returns the sparse rows of a batch of these samples in `bytes`, which they share, with their offsets
  /// filled in.
  SparseRows make(const std::vector<std::int64_t>& samples, std::shared_ptr<std::byte> bytes) const;

  /// Copies `row` to place `position` of `out`. Calls for different positions may run concurrently.
  void copy(const SparseReader::Row& row, std::size_t position, const SparseRows& out) const;

 private:
  std::uint64_t values_of(const std::vector<std::int64_t>& samples) const noexcept;
  DType index_of(std::uint64_t values) const noexcept;
  void convert(const std::byte* from, std::size_t count, std::byte* to) const;

  const SparseData& sparse_;
  const DType to_;
  const DType index_;
  std::unique_ptr<const RowKernel> many_;  // converts kMany values
  std::unique_ptr<const RowKernel> one_;   // converts one value
};

}  // namespace h5feed
