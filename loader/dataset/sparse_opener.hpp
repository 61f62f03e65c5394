// SPDX-License-Identifier: Apache-2.0
// Opener of data that is a sparse matrix.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/field_opener.hpp"
#include "store/sparse/sparse_data.hpp"
#include "store/sparse/sparse_group.hpp"

namespace h5feed {

/// Opens the matrices of one or more files as samples. Not thread-safe.
class SparseOpener final : public PartOpener {
 public:
  SparseOpener(FieldSpec spec, SparseOptions options, std::shared_ptr<FilePool> pool)
      : PartOpener(std::move(spec)), options_(std::move(options)), pool_(std::move(pool)) {}

  /// Throws DatasetError also if the table of rows falls, exceeds the values or does not fit the shape, if
  /// there are not as many columns of values as values, or if the matrix has other columns than those kept
  /// before.
  std::uint64_t look(const std::shared_ptr<H5File>& file, const DatasetAccess::WrapSource& wrap) override;

  /// Returns the samples of all kept matrices. Throws DatasetError if there are none; OptionError for columns
  /// that the matrix does not have, or that are given twice.
  SparseData finish();

 private:
  void keep_found() override;
  struct Matrix {
    SparsePart part;
    std::uint64_t columns = 0;
    std::vector<std::vector<std::string>> names;  // lists of names of the columns
  };
  Matrix open_one(const std::shared_ptr<H5File>& in, const std::string& name,
                  const DatasetAccess::WrapSource& wrap) const;
  std::uint64_t column_number(const SparseOptions::Column& column) const;
  std::vector<std::int32_t> places() const;

  const SparseOptions options_;
  const std::shared_ptr<FilePool> pool_;
  std::vector<Matrix> found_;
  std::vector<Matrix> matrices_;
};

/// Returns the opener of the data if it is a sparse matrix in `file`, the first of all; else null. Throws
/// OptionError if the options do not fit a sparse matrix, or ask for one where there is none; FileError, and
/// DatasetError as `find_sparse_group`.
std::unique_ptr<SparseOpener> sparse_opener(const DatasetOptions& options, const FieldSpec& spec,
                                            const std::filesystem::path& file,
                                            const std::shared_ptr<FilePool>& pool);

/// Returns the dataset of integers, and the names of the codes, of a categorical column at `path` in all
/// files; if it is none, `path` itself without names. Throws DatasetError if the files name other categories;
/// FileError.
CategoricalColumn column_of(const std::string& path, const std::vector<std::filesystem::path>& files,
                            FilePool& pool);

/// Gives the target and the named fields of `state` the names of their codes; `fields` has a column for each.
/// Throws DatasetError for codes that are no integers or, in fields that are in memory, have no name.
void name_codes(DatasetState& state, CategoricalColumn target, std::vector<CategoricalColumn> fields);

}  // namespace h5feed
