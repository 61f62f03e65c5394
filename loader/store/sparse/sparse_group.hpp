// SPDX-License-Identifier: Apache-2.0
// Sparse matrices and categorical columns as AnnData and 10x Genomics store them: which groups hold them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "store/hdf5/h5_file.hpp"

namespace h5feed {

/// A group that holds a sparse matrix whose rows are cells: three datasets of one dimension.
struct SparseGroup {
  std::string path;           ///< Absolute path of the group
  std::uint64_t rows = 0;     ///< Number of cells
  std::uint64_t columns = 0;  ///< Number of genes
  /// Paths of the datasets of strings that name the columns, the preferred first; empty if there are none.
  std::vector<std::string> names = {};

  /// Returns the path of the non-zero values.
  std::string data() const { return path + "/data"; }
  /// Returns the path of the column of each value.
  std::string indices() const { return path + "/indices"; }
  /// Returns the path of the table of rows + 1 positions at which the rows begin in the values.
  std::string indptr() const { return path + "/indptr"; }
};

template <>
struct WireMembers<SparseGroup> {
  static auto of(auto& v) { return std::tie(v.path, v.rows, v.columns, v.names); }
};

/// Returns the matrix that the group at `path` holds: CSR of AnnData, or the matrix of a 10x file, whose
/// columns are the cells and become the rows. Returns nullopt if the object is no group, or holds no sparse
/// matrix. Throws DatasetError for CSC of AnnData, with the line of Python that converts it, and for a group
/// whose shape or datasets are missing; FileError if libhdf5 cannot read it.
std::optional<SparseGroup> find_sparse_group(const H5File& file, const std::string& path);

/// Returns the strings of a dataset of one dimension; numbers as text. Throws DatasetError if it has another
/// type or rank, FileError.
std::vector<std::string> read_names(const H5File& file, const std::string& path);

/// A column of a table whose values are codes of a list of names.
struct CategoricalColumn {
  std::string codes;               ///< Absolute path of the integer codes; −1 where the value is missing
  std::vector<std::string> names;  ///< Name of each code
};

template <>
struct WireMembers<CategoricalColumn> {
  static auto of(auto& v) { return std::tie(v.codes, v.names); }
};

/// Returns the path with a leading slash and without trailing ones: "/obs/cell_type" for "obs/cell_type/".
std::string rooted(const std::string& path);

/// Returns the categorical column of AnnData at `path`, "obs/cell_type"; also of AnnData before 0.8, which
/// keeps the names in "obs/__categories". Returns nullopt for anything else. Throws DatasetError, FileError.
std::optional<CategoricalColumn> find_categorical(const H5File& file, const std::string& path);

}  // namespace h5feed
