// SPDX-License-Identifier: Apache-2.0
// Sparse rows: samples that are rows of a matrix in compressed form, such as the cells of AnnData and 10x
// Genomics.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace h5feed {

/// Form in which rows of a sparse matrix are delivered. `csr`: values, columns and offsets, as
/// `Batch::sparse`, in host memory. `dense`: (B, columns) with zeros, as `Batch::data`; can be normalized,
/// transformed and sent to a GPU like any other data.
enum class SparseFormat : std::uint8_t { csr, dense };

/// How the rows of a sparse matrix become samples.
struct SparseOptions {
  /// A column by its number from 0, or by its name: the index of `var` of AnnData; the name of the feature of
  /// 10x Genomics, or its id if it has no such name.
  using Column = std::variant<std::int64_t, std::string>;

  /// Form of the samples.
  SparseFormat format = SparseFormat::csr;
  /// Columns to deliver, in this order; each at most once. Only with `SparseFormat::dense`. Empty: all.
  std::vector<Column> columns = {};
};

}  // namespace h5feed
