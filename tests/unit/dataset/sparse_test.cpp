// SPDX-License-Identifier: Apache-2.0
// Rows of sparse matrices as samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/sample_reader.hpp"
#include "support/case_step.hpp"
#include "support/files/sparse_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SparseMatrix : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const SparseRowsSet& set, hsize_t chunk) {
    SparseFile file(folder / name);
    file.matrix("X", set, chunk);
    file.file().createGroup("var");
    file.attribute("var", "_index", "gene");
    std::vector<std::string> genes;
    for (std::int64_t i = 0; i < set.columns; ++i) genes.push_back("g" + std::to_string(i));
    file.write_names("var/gene", genes);
    return folder / name;
  }

  std::string refusal(const DatasetOptions& options) const {
    return refusal_in<Error>(folder.path(), [&] { Dataset::open(options); });
  }

  // Returns each sample of a CSR batch with its zeros.
  static std::vector<std::vector<float>> dense_rows(const Batch& batch) {
    std::vector<std::vector<float>> rows;
    const auto offsets = batch.sparse.offsets.as<std::int32_t>();
    const auto columns = batch.sparse.columns.as<std::int32_t>();
    const auto values = batch.sparse.values.as<float>();
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      std::vector<float>& row = rows.emplace_back(static_cast<std::size_t>(batch.sparse.num_columns));
      for (auto at = static_cast<std::size_t>(offsets[i]); at < static_cast<std::size_t>(offsets[i + 1]);
           ++at)
        row[static_cast<std::size_t>(columns[at])] += values[at];
    }
    return rows;
  }

  // Returns whether sample `i` of a CSR batch has the values and columns of its row.
  static bool is_row(const Batch& batch, std::size_t i, const SparseRowsSet& set) {
    const auto offsets = batch.sparse.offsets.as<std::int32_t>();
    const auto at = static_cast<std::size_t>(offsets[i]);
    const auto count = static_cast<std::size_t>(offsets[i + 1]) - at;
    const auto row = static_cast<std::size_t>(batch.indices[i]);
    const auto first = static_cast<std::size_t>(set.indptr[row]);
    return count == static_cast<std::size_t>(set.indptr[row + 1]) - first &&
           std::memcmp(batch.sparse.values.as<float>().data() + at, set.values.data() + first, count * 4) ==
               0 &&
           std::memcmp(batch.sparse.columns.as<std::int32_t>().data() + at, set.indices.data() + first,
                       count * 4) == 0;
  }

  TempDir folder;
};

TEST_F(SparseMatrix, rows_are_delivered_once_with_any_workers_cache_and_order) {
  // About 1,200,000 values: several blocks, with rows across their borders and one row longer than a chunk.
  const SparseRowsSet set = random_rows(4200, 2400);
  std::uint64_t number = 0;
  for (const hsize_t chunk : {hsize_t{0}, hsize_t{1999}, hsize_t{150'000}}) {
    const auto path = write("cells.h5ad", set, chunk);
    const Dataset dataset = Dataset::open({.files = {path}, .data = "X"});
    EXPECT_EQ(dataset.size(), set.rows());
    EXPECT_THAT(dataset.sample_shape(), ElementsAre(set.columns));
    for (const std::int64_t workers : {0, 1, 2, 4}) {
      for (const char* const shuffle : {"sequential", "chunk:2", "full"}) {
        if (number++ % kCaseStep != 0) continue;
        DataLoaderOptions options{.batch_size = 100, .shuffle = shuffle, .seed = 3, .num_workers = workers};
        options.cache_bytes = workers == 2 ? 0 : std::uint64_t{1} << 24;
        DataLoader loader(dataset, options);
        EXPECT_GT(loader.plan().chunks, 1u);
        std::set<std::int64_t> seen;
        while (const auto batch = loader.next()) {
          EXPECT_FALSE(batch->data.defined());
          for (std::size_t i = 0; i < batch->indices.size(); ++i) {
            EXPECT_TRUE(seen.insert(batch->indices[i]).second);
            ASSERT_TRUE(is_row(*batch, i, set)) << "row " << batch->indices[i];
          }
        }
        EXPECT_EQ(seen.size(), static_cast<std::size_t>(set.rows()));
      }
    }
  }
}

TEST_F(SparseMatrix, columns_are_delivered_from_integers_of_any_width) {
  const SparseRowsSet set = random_rows(600, 120);
  const auto path = folder / "cells.h5ad";
  for (const H5::PredType& type :
       {H5::PredType::STD_U8LE, H5::PredType::STD_I16LE, H5::PredType::STD_U16BE, H5::PredType::STD_U32LE,
        H5::PredType::STD_I32BE, H5::PredType::STD_I64LE, H5::PredType::STD_U64LE}) {
    for (const hsize_t chunk : {hsize_t{0}, hsize_t{100}, hsize_t{2 * set.values.size()}}) {
      SparseFile file(path);
      file.matrix("X", set, chunk);
      file.file().unlink("X/indices");
      file.write("X/indices", set.indices, type, chunk);
      file.file().close();
      DataLoader loader(Dataset::open({.files = {path}, .data = "X"}), {.batch_size = 64});
      while (const auto batch = loader.next()) {
        for (std::size_t i = 0; i < batch->indices.size(); ++i)
          ASSERT_TRUE(is_row(*batch, i, set)) << "row " << batch->indices[i];
      }
    }
  }
}

TEST_F(SparseMatrix, without_filters_is_read_row_by_row_if_a_full_shuffle_does_not_fit_the_cache) {
  const SparseRowsSet set = random_rows(700, 2400);
  const auto path = write("cells.h5ad", set, 0);
  for (const SparseFormat format : {SparseFormat::csr, SparseFormat::dense}) {
    const Dataset dataset =
        Dataset::open({.files = {path}, .data = "X", .sparse = SparseOptions{.format = format}});
    for (const RowReads reads : {RowReads::automatic, RowReads::always, RowReads::never}) {
      DataLoaderOptions options{.batch_size = 64, .shuffle = true, .num_workers = 2, .row_reads = reads};
      options.cache_bytes = 1 << 16;
      DataLoader loader(dataset, options);
      while (const auto batch = loader.next()) {
        for (std::size_t i = 0; i < batch->indices.size(); ++i) {
          if (format == SparseFormat::csr) {
            ASSERT_TRUE(is_row(*batch, i, set)) << "row " << batch->indices[i];
          } else {
            EXPECT_TRUE(std::ranges::equal(batch->data.as<float>().subspan(i * 2400, 2400),
                                           set.dense(batch->indices[i])));
          }
        }
      }
      EXPECT_EQ(loader.stats().rows_direct > 0, reads != RowReads::never);
    }
  }
  const Dataset compressed = Dataset::open({.files = {write("gzip.h5ad", set, 5000)}, .data = "X"});
  EXPECT_THAT(refusal_of<OptionError>([&] { DataLoader(compressed, {.row_reads = RowReads::always}); }),
              HasSubstr("row_reads = always needs uncompressed rows"));
}

TEST_F(SparseMatrix, chosen_columns_are_dense_by_number_and_name) {
  const SparseRowsSet set = random_rows(90, 40);
  const auto path = write("cells.h5ad", set, 64);
  const SparseOptions chosen{.format = SparseFormat::dense, .columns = {"g7", std::int64_t{39}, "g0"}};
  const Dataset dataset = Dataset::open({.files = {path}, .data = "X", .sparse = chosen});
  EXPECT_THAT(dataset.sample_shape(), ElementsAre(3));
  DataLoaderOptions options{.batch_size = 8, .shuffle = true, .num_workers = 2};
  options.normalize = Normalize{.mean = {1}, .std = {2}};
  DataLoader loader(dataset, options);
  while (const auto batch = loader.next()) {
    const auto values = batch->data.as<float>();
    for (std::size_t i = 0; i < batch->indices.size(); ++i) {
      const std::vector<float> row = set.dense(batch->indices[i]);
      EXPECT_EQ(values[i * 3], (row[7] - 1) / 2);
      EXPECT_EQ(values[i * 3 + 1], (row[39] - 1) / 2);
      EXPECT_EQ(values[i * 3 + 2], (row[0] - 1) / 2);
    }
  }
  const SampleReader reader(dataset);
  const std::int64_t sample = 45;
  const Batch one = reader.read({&sample, 1});
  EXPECT_EQ(one.data.as<float>()[0], set.dense(45)[7]);
}

TEST_F(SparseMatrix, files_and_ranks_and_resuming_deliver_every_row_once) {
  const SparseRowsSet first = random_rows(130, 60, 1);
  const SparseRowsSet second = random_rows(70, 60, 2);
  const Dataset dataset =
      Dataset::open({.files = {write("a.h5ad", first, 50), write("b.h5ad", second, 0)}, .data = "X"});
  EXPECT_EQ(dataset.origin(131).file, (folder / "b.h5ad").string());
  EXPECT_EQ(dataset.origin(131).row, 1);
  std::multiset<std::int64_t> seen;
  for (const std::int64_t rank : {0, 1}) {
    DataLoaderOptions options{.batch_size = 16, .shuffle = "chunk:2", .seed = 5, .num_workers = 1};
    options.rank = rank;
    options.world_size = 2;
    options.uneven = Uneven::exact;
    LoaderState state;
    {
      DataLoader loader(dataset, options);
      for (int i = 0; i < 3; ++i) {
        const auto batch = loader.next();
        seen.insert(batch->indices.begin(), batch->indices.end());
      }
      state = loader.state();
    }
    DataLoader resumed(dataset, options);
    resumed.restore(state);
    while (const auto batch = resumed.next()) {
      seen.insert(batch->indices.begin(), batch->indices.end());
      const auto rows = dense_rows(*batch);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::int64_t row = batch->indices[i];
        EXPECT_EQ(rows[i], row < 130 ? first.dense(row) : second.dense(row - 130));
      }
    }
  }
  EXPECT_EQ(seen.size(), 200u);
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 200u);
}

TEST_F(SparseMatrix, without_values_has_empty_rows) {
  SparseRowsSet set{.columns = 5};
  set.indptr.assign(12, 0);
  for (const hsize_t chunk : {hsize_t{0}, hsize_t{8}}) {
    DataLoader loader(Dataset::open({.files = {write("empty.h5ad", set, chunk)}, .data = "X"}),
                      {.batch_size = 4});
    std::int64_t rows = 0;
    while (const auto batch = loader.next()) {
      rows += batch->size();
      EXPECT_TRUE(batch->sparse.defined());
      EXPECT_THAT(batch->sparse.values.shape, ElementsAre(0));
      EXPECT_EQ(batch->sparse.offsets.as<std::int32_t>().back(), 0);
    }
    EXPECT_EQ(rows, 11);
  }
}

TEST_F(SparseMatrix, of_10x_has_barcodes_as_samples_and_is_converted) {
  const SparseRowsSet set = random_rows(50, 30);
  {
    SparseFile file(folder / "10x.h5");
    file.file().createGroup("matrix");
    file.file().createGroup("matrix/features");
    std::vector<std::int32_t> counts;
    for (const float value : set.values) counts.push_back(static_cast<std::int32_t>(value * 4));
    file.write("matrix/data", counts, H5::PredType::NATIVE_INT32, 100);
    std::vector<std::int64_t> genes(set.indices.begin(), set.indices.end());
    file.write("matrix/indices", genes, H5::PredType::NATIVE_INT64, 100);
    file.write("matrix/indptr", set.indptr, H5::PredType::NATIVE_INT64, 100);
    file.write("matrix/shape", std::vector<std::int32_t>{30, 50}, H5::PredType::NATIVE_INT32);
    file.write_names("matrix/barcodes", std::vector<std::string>(50, "AAAC-1"));
    file.write_names("matrix/features/name", std::vector<std::string>(30, "TP53"));
    std::vector<std::string> ids;
    for (int i = 0; i < 30; ++i) ids.push_back("ENSG" + std::to_string(i));
    file.write_names("matrix/features/id", ids);
  }
  DataLoaderOptions options{.batch_size = 7};
  options.output_dtype = DType::f32;
  DataLoader loader(Dataset::open({.files = {folder / "10x.h5"}, .data = "matrix"}), options);
  while (const auto batch = loader.next()) {
    auto rows = dense_rows(*batch);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (float& value : rows[i]) value /= 4;
      EXPECT_EQ(rows[i], set.dense(batch->indices[i]));
    }
  }
  const auto columns = [&](const SparseOptions::Column& column) {
    return refusal({.files = {folder / "10x.h5"},
                    .data = "matrix",
                    .sparse = SparseOptions{.format = SparseFormat::dense, .columns = {column}}});
  };
  EXPECT_EQ(columns("ENSG3"), "accepted");
  EXPECT_EQ(columns("TP53"),
            "sparse.columns: 10x.h5:/matrix has several columns named \"TP53\"; give the number of the one "
            "that you want");
  EXPECT_EQ(columns(std::int64_t{30}), "sparse.columns: there is no column 30; 10x.h5:/matrix has 30");
}

TEST_F(SparseMatrix, has_categorical_columns_as_targets_and_fields) {
  const SparseRowsSet set = random_rows(3, 10);
  {
    SparseFile file(folder / "cells.h5ad");
    file.matrix("X", set, 8);
    file.file().createGroup("obs");
    file.categories("obs/cell_type", {1, -1, 0}, {"B", "T"});
    file.categories("obs/donor", {0, 0, 1}, {"d1", "d2"});
    file.categories("obs/beyond", {0, 2, 1}, {"d1", "d2"});
    file.categories("obs/below", {0, 0, -2}, {"d1", "d2"});
  }
  const Dataset dataset = Dataset::open({.files = {folder / "cells.h5ad"},
                                         .data = "X",
                                         .target = "obs/cell_type",
                                         .fields = {{.name = "donor", .data = "obs/donor"}}});
  EXPECT_THAT(dataset.categories(), ElementsAre("B", "T"));
  EXPECT_THAT(dataset.categories("donor"), ElementsAre("d1", "d2"));
  DataLoader loader(dataset, {.batch_size = 3});
  const auto batch = loader.next();
  EXPECT_THAT(batch->target.as<std::int64_t>(), ElementsAre(1, -1, 0));
  EXPECT_THAT(batch->field("donor").values.as<std::int8_t>(), ElementsAre(0, 0, 1));
  EXPECT_EQ(refusal_of<OptionError>([&] { static_cast<void>(dataset.categories("batch")); }),
            "there is no field \"batch\"; name one of the dataset's fields");
  EXPECT_EQ(
      refusal({.files = {folder / "cells.h5ad"}, .data = "X", .target = "obs/beyond"}),
      "cells.h5ad:/obs/beyond/codes: row 1 has the code 2, and there are 2 categories; restore the file "
      "from a good copy");
  EXPECT_THAT(refusal({.files = {folder / "cells.h5ad"},
                       .data = "X",
                       .fields = {{.name = "donor", .data = "obs/below"}}}),
              HasSubstr("row 2 has the code -2"));
}

TEST_F(SparseMatrix, that_is_damaged_is_refused_in_one_line) {
  const SparseRowsSet good = random_rows(20, 10);
  const auto refused = [&](const SparseRowsSet& set) {
    return refusal({.files = {write("bad.h5ad", set, 16)}, .data = "X"});
  };
  SparseRowsSet falls = good;
  falls.indptr[9] = falls.indptr[8] - 1;
  EXPECT_THAT(refused(falls), HasSubstr("bad.h5ad:/X/indptr falls from"));
  SparseRowsSet beyond = good;
  beyond.indptr.back() += 1;
  EXPECT_THAT(refused(beyond), HasSubstr("beyond the"));
  SparseRowsSet fewer = good;
  fewer.indices.pop_back();
  EXPECT_THAT(refused(fewer), HasSubstr("columns in indices; restore the file from a good copy"));
  SparseRowsSet later = good;
  later.indptr.front() = 1;
  EXPECT_THAT(refused(later), HasSubstr("must begin with 0"));
  SparseRowsSet none;
  EXPECT_THAT(refused(none), HasSubstr("has 0 columns; a sparse matrix needs 1 to"));
  EXPECT_THAT(refused({.columns = 4}), HasSubstr("bad.h5ad:/X holds no samples"));
  SparseRowsSet negative = good;
  negative.indptr[1] = -1;
  EXPECT_THAT(refused(negative), HasSubstr("indptr falls from 0 to -1 at row 0"));

  SparseRowsSet outside = good;
  const auto row =
      static_cast<std::size_t>(std::ranges::upper_bound(good.indptr, 20) - good.indptr.begin() - 1);
  outside.indices[20] = 10;
  EXPECT_THAT(refused(outside), HasSubstr("bad.h5ad:/X/indices: row " + std::to_string(row) +
                                          " has a value in column 10, and the matrix has 10 columns"));
}

TEST_F(SparseMatrix, options_that_do_not_fit_are_refused) {
  const auto path = write("cells.h5ad", random_rows(20, 10), 16);
  EXPECT_THAT(refusal({.files = {path}, .data = "var/gene", .sparse = SparseOptions()}),
              HasSubstr("sparse is for data that is a sparse matrix"));
  EXPECT_THAT(refusal({.files = {path}, .data = "X", .sparse = SparseOptions{.columns = {"g1"}}}),
              HasSubstr("set sparse.format = dense"));
  EXPECT_THAT(refusal({.files = {path}, .data = "X", .input_layout = InputLayout::nchw}),
              HasSubstr("input_layout is for images"));
  {
    SparseFile file(folder / "genes.h5ad");
    file.matrix("X", random_rows(20, 10), 16, "csc_matrix");
  }
  EXPECT_EQ(
      refusal({.files = {folder / "genes.h5ad"}, .data = "X"}),
      "genes.h5ad:/X is a CSC matrix, which stores the values gene by gene, so that each cell is spread "
      "over all chunks; convert it once in Python: import anndata; a = anndata.read_h5ad(\"genes.h5ad\"); "
      "a.X = a.X.tocsr(); a.write_h5ad(\"csr.h5ad\", compression=\"gzip\")");
  const Dataset dataset = Dataset::open({.files = {path}, .data = "X"});
  DataLoaderOptions normalized;
  normalized.normalize = Normalize{.mean = {1}};
  EXPECT_THAT(refusal_of<OptionError>([&] { DataLoader(dataset, normalized); }),
              HasSubstr("normalize also changes zeros"));
  DataLoaderOptions clairvoyant{.cache_policy = CachePolicy::clairvoyant};
  EXPECT_THAT(refusal_of<OptionError>([&] { DataLoader(dataset, clairvoyant); }), HasSubstr("lru"));
}

}  // namespace
}  // namespace h5feed::test
