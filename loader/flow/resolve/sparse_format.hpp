// SPDX-License-Identifier: Apache-2.0
// Batches of sparse rows: their types and memory, and the options that they exclude.
#pragma once

#include <cstddef>
#include <cstdint>

#include "flow/resolve/placement.hpp"
#include "h5feed/data_loader.hpp"
#include "store/sparse/sparse_data.hpp"

namespace h5feed {

/// Places of values, columns and offsets in the memory of one batch, in bytes. The values begin at 0.
struct SparsePlaces {
  std::size_t columns = 0;  ///< First byte of the columns
  std::size_t offsets = 0;  ///< First byte of the offsets
  std::size_t bytes = 0;    ///< Bytes of all three

  /// Computes the places for `values` values of `samples` samples.
  SparsePlaces(std::uint64_t values, std::uint64_t samples, DType value_type, DType index_type) noexcept;
};

/// Returns the type of the columns and offsets of that many values: the narrower one, if it has room for all
/// offsets.
DType index_dtype_for(std::uint64_t values) noexcept;

/// Sets types and memory of batches that are delivered as CSR: of `max_batch_rows` samples, among which
/// samples may repeat if `may_repeat_in_batch` says so.
void set_sparse_format(DeliveryFormat& format, const SparseData& sparse, const DataLoaderOptions& options,
                       std::uint64_t max_batch_rows);

/// Throws OptionError if `options` ask for what samples of a sparse matrix cannot have.
void check_sparse(const DataLoaderOptions& options, const DatasetState& dataset, const Placement& placement);

}  // namespace h5feed
