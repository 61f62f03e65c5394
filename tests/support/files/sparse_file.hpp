// SPDX-License-Identifier: Apache-2.0
// Files with sparse matrices, as AnnData and 10x Genomics write them.
#pragma once

#include <H5Cpp.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace h5feed::test {

/// A matrix of float values in compressed rows.
struct SparseRowsSet {
  std::int64_t columns = 0;
  std::vector<std::int64_t> indptr = {0};
  std::vector<std::int32_t> indices = {};
  std::vector<float> values = {};

  std::int64_t rows() const { return static_cast<std::int64_t>(indptr.size()) - 1; }
  /// Returns row `row` with its zeros.
  std::vector<float> dense(std::int64_t row) const {
    std::vector<float> out(static_cast<std::size_t>(columns));
    for (std::int64_t i = indptr[static_cast<std::size_t>(row)];
         i < indptr[static_cast<std::size_t>(row) + 1]; ++i)
      out[static_cast<std::size_t>(indices[static_cast<std::size_t>(i)])] +=
          values[static_cast<std::size_t>(i)];
    return out;
  }
};

/// Returns rows of different lengths: some empty, one with every column.
inline SparseRowsSet random_rows(std::int64_t rows, std::int64_t columns, unsigned seed = 1) {
  std::mt19937 random(seed);
  SparseRowsSet set{.columns = columns};
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::mt19937::result_type share = row == rows / 2 ? 100 : row % 5 == 0 ? 0 : random() % 30;
    for (std::int64_t column = 0; column < columns; ++column) {
      if (random() % 100 >= share) continue;
      set.indices.push_back(static_cast<std::int32_t>(column));
      set.values.push_back(static_cast<float>(random() % 1000 + 1) / 4);
    }
    set.indptr.push_back(static_cast<std::int64_t>(set.values.size()));
  }
  return set;
}

/// Writes groups and datasets of one dimension into a new file.
class SparseFile {
 public:
  explicit SparseFile(const std::filesystem::path& path) : file_(path.string(), H5F_ACC_TRUNC) {}

  H5::H5File& file() { return file_; }

  /// Writes an array of one dimension; with `chunk` in compressed chunks.
  template <typename T>
  void write(const std::string& path, const std::vector<T>& values, const H5::DataType& type,
             hsize_t chunk = 0) {
    const hsize_t count = values.size();
    H5::DSetCreatPropList plist;
    if (chunk > 0) {
      plist.setChunk(1, &chunk);
      plist.setDeflate(1);
    }
    const hsize_t most = H5S_UNLIMITED;
    const H5::DataSpace space(1, &count, chunk > 0 ? &most : nullptr);
    H5::DataSet dataset = file_.createDataSet(path, type, space, plist);
    if (count > 0) dataset.write(values.data(), native(T{}));
  }

  /// Writes strings of variable length.
  void write_names(const std::string& path, const std::vector<std::string>& names) {
    const hsize_t count = names.size();
    std::vector<const char*> pointers;
    for (const std::string& name : names) pointers.push_back(name.c_str());
    const H5::StrType type(H5::PredType::C_S1, H5T_VARIABLE);
    file_.createDataSet(path, type, H5::DataSpace(1, &count)).write(pointers.data(), type);
  }

  void attribute(const std::string& group, const std::string& name, const std::string& value) {
    const H5::StrType type(H5::PredType::C_S1, H5T_VARIABLE);
    file_.openGroup(group).createAttribute(name, type, H5::DataSpace()).write(type, value);
  }

  void shape(const std::string& group, std::int64_t rows, std::int64_t columns) {
    const hsize_t two = 2;
    const std::int64_t extents[] = {rows, columns};
    file_.openGroup(group)
        .createAttribute("shape", H5::PredType::NATIVE_INT64, H5::DataSpace(1, &two))
        .write(H5::PredType::NATIVE_INT64, extents);
  }

  /// Writes a CSR matrix of AnnData.
  void matrix(const std::string& group, const SparseRowsSet& set, hsize_t chunk,
              const std::string& encoding = "csr_matrix") {
    file_.createGroup(group);
    attribute(group, "encoding-type", encoding);
    shape(group, set.rows(), set.columns);
    write(group + "/data", set.values, H5::PredType::NATIVE_FLOAT, chunk);
    write(group + "/indices", set.indices, H5::PredType::NATIVE_INT32, chunk);
    write(group + "/indptr", set.indptr, H5::PredType::NATIVE_INT64, chunk);
  }

  /// Writes a categorical column of AnnData.
  void categories(const std::string& group, const std::vector<std::int8_t>& codes,
                  const std::vector<std::string>& names) {
    file_.createGroup(group);
    attribute(group, "encoding-type", "categorical");
    write(group + "/codes", codes, H5::PredType::NATIVE_INT8);
    write_names(group + "/categories", names);
  }

 private:
  static const H5::PredType& native(float) { return H5::PredType::NATIVE_FLOAT; }
  static const H5::PredType& native(std::int8_t) { return H5::PredType::NATIVE_INT8; }
  static const H5::PredType& native(std::int32_t) { return H5::PredType::NATIVE_INT32; }
  static const H5::PredType& native(std::int64_t) { return H5::PredType::NATIVE_INT64; }

  H5::H5File file_;
};

}  // namespace h5feed::test
