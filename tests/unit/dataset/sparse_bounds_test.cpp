// SPDX-License-Identifier: Apache-2.0
// Sparse matrices that would be read or delivered beyond some memory, if nobody looked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "flow/resolve/sparse_format.hpp"
#include "h5feed/data_loader.hpp"
#include "support/captured_log.hpp"
#include "support/files/sample_set.hpp"
#include "support/files/sparse_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

class SparseBounds : public testing::Test {
 protected:
  // A matrix of one row of more values than are checked at open, all of them in `column`: chunks that were
  // never written hold the fill value.
  template <typename Column>
  Dataset one_large_row(const H5::PredType& type, Column column, std::int64_t columns, SparseFormat format) {
    constexpr hsize_t kValues = (hsize_t{64} << 20) + 1;
    {
      SparseFile file(folder_ / "large.h5ad");
      file.file().createGroup("X");
      file.attribute("X", "encoding-type", "csr_matrix");
      file.shape("X", 1, columns);
      file.write<std::int64_t>("X/indptr", {0, kValues}, H5::PredType::NATIVE_INT64);
      const hsize_t chunk = hsize_t{1} << 20;
      H5::DSetCreatPropList plist;
      plist.setChunk(1, &chunk);
      const H5::DataSpace space(1, &kValues);
      file.file().createDataSet("X/data", H5::PredType::NATIVE_UINT8, space, plist);
      plist.setFillValue(type, &column);
      file.file().createDataSet("X/indices", type, space, plist);
    }
    return Dataset::open(
        {.files = {folder_ / "large.h5ad"}, .data = "X", .sparse = SparseOptions{.format = format}});
  }

  // One row of `longest` values and `others` of ten.
  Dataset one_long_row(std::int64_t longest, std::int64_t others, hsize_t chunk = 0) {
    SparseRowsSet set{.columns = longest};
    for (std::int64_t row = 0; row <= others; ++row) {
      for (std::int64_t column = 0; column < (row == 0 ? longest : 10); ++column) {
        set.indices.push_back(static_cast<std::int32_t>(column));
        set.values.push_back(static_cast<float>(row + 1));
      }
      set.indptr.push_back(static_cast<std::int64_t>(set.values.size()));
    }
    SparseFile(folder_ / "x.h5ad").matrix("X", set, chunk);
    return Dataset::open({.files = {folder_ / "x.h5ad"}, .data = "X"});
  }

  // Returns how many samples of an epoch are the first row, whose values must all be 1.
  static std::size_t first_rows(DataLoader& loader) {
    std::size_t count = 0;
    while (const auto batch = loader.next()) {
      const auto offsets = batch->sparse.offsets.as<std::int32_t>();
      const auto values = batch->sparse.values.as<float>();
      for (std::size_t i = 0; i < batch->indices.size(); ++i) {
        for (auto at = offsets[i]; at < offsets[i + 1]; ++at)
          EXPECT_EQ(values[static_cast<std::size_t>(at)], static_cast<float>(batch->indices[i] + 1));
        count += batch->indices[i] == 0 ? 1U : 0U;
        if (HasFailure()) return count;
      }
    }
    return count;
  }

  TempDir folder_;
};

// Negative columns of narrow integers are, as unsigned numbers of their width, columns that the matrix has.
TEST_F(SparseBounds, refuse_columns_that_the_matrix_has_not_when_they_are_read) {
  const auto refusal = [&](const H5::PredType& type, auto column, std::int64_t columns, SparseFormat format) {
    DataLoader loader(one_large_row(type, column, columns, format), {});
    return refusal_in<ChunkError>(folder_.path(), [&] { loader.next(); });
  };
  for (const SparseFormat format : {SparseFormat::csr, SparseFormat::dense}) {
    EXPECT_THAT(refusal(H5::PredType::NATIVE_INT64, std::int64_t{10}, 10, format),
                HasSubstr("large.h5ad:/X/indices: row 0 has a value in column 10, and the matrix has 10"));
    EXPECT_THAT(refusal(H5::PredType::NATIVE_INT8, std::int8_t{-2}, 500, format),
                HasSubstr("large.h5ad:/X/indices: row 0 has a value in column -2, and the matrix has 500"));
    EXPECT_THAT(refusal(H5::PredType::NATIVE_INT16, std::int16_t{-7}, 100'000, format),
                HasSubstr("has a value in column -7, and the matrix has 100,000"));
  }
}

TEST_F(SparseBounds, have_room_for_rows_by_which_a_rank_pads_its_share) {
  const Dataset dataset = one_long_row(262'144, 20);
  std::size_t most = 0;
  for (const std::int64_t rank : {0, 1}) {
    DataLoader loader(dataset, {.batch_size = 20,
                                .seed = 0,
                                .rank = rank,
                                .world_size = 2,
                                .shard = Shard::by_chunk,
                                .uneven = Uneven::pad});
    most = std::max(most, first_rows(loader));
  }
  EXPECT_GT(most, 1U) << "the long row fills the share of its rank";
}

TEST_F(SparseBounds, have_room_for_rows_that_replace_others) {
  // The second chunk of the values is a block of its own, and holds all rows but the first.
  constexpr hsize_t kChunk = 530'000;
  const Dataset dataset = one_long_row(kChunk, 40, kChunk);
  haddr_t place = 0;
  {
    const H5::H5File file((folder_ / "x.h5ad").string(), H5F_ACC_RDONLY);
    unsigned mask = 0;
    hsize_t bytes = 0;
    ASSERT_GE(H5Dget_chunk_info_by_coord(file.openDataSet("X/data").getId(), &kChunk, &mask, &place, &bytes),
              0);
  }
  damage(folder_ / "x.h5ad", place + 4, 16);
  const CapturedLog quiet;
  DataLoader loader(dataset, {.batch_size = 20, .on_error = OnError::replace, .max_bad_share = 1});
  EXPECT_GT(first_rows(loader), 1U);
}

// A chunk of values or columns is then put together in a buffer of the thread.
TEST_F(SparseBounds, hold_values_of_virtual_datasets_that_alternate_between_sources) {
  const SparseRowsSet set = random_rows(100, 50);
  const auto number = static_cast<hsize_t>(set.values.size());
  for (const hsize_t chunk : {hsize_t{7}, hsize_t{300}}) {
    const auto path = folder_ / ("virtual" + std::to_string(chunk) + ".h5ad");
    {
      SparseFile file(path);
      file.file().createGroup("X");
      file.attribute("X", "encoding-type", "csr_matrix");
      file.shape("X", set.rows(), set.columns);
      file.write("X/indptr", set.indptr, H5::PredType::NATIVE_INT64);
      const auto alternate = [&](const std::string& name, const auto& values, const H5::PredType& type) {
        const hsize_t stride = 2, one = 1;
        H5::DSetCreatPropList plist;
        for (const hsize_t first : {hsize_t{0}, hsize_t{1}}) {
          std::decay_t<decltype(values)> part;
          for (std::size_t i = first; i < values.size(); i += 2) part.push_back(values[i]);
          const std::string source = "source_" + name + std::to_string(first);
          file.write(source, part, type, chunk);
          const hsize_t count = part.size();
          const H5::DataSpace from(1, &count);
          H5::DataSpace to(1, &number);
          to.selectHyperslab(H5S_SELECT_SET, &count, &first, &stride, &one);
          ASSERT_GE(H5Pset_virtual(plist.getId(), to.getId(), ".", source.c_str(), from.getId()), 0);
        }
        file.file().createDataSet("X/" + name, type, H5::DataSpace(1, &number), plist);
      };
      alternate("data", set.values, H5::PredType::NATIVE_FLOAT);
      alternate("indices", set.indices, H5::PredType::NATIVE_INT32);
    }
    const Dataset dataset =
        Dataset::open({.files = {path}, .data = "X", .sparse = SparseOptions{.format = SparseFormat::dense}});
    DataLoader loader(dataset, {.batch_size = 8});
    while (const auto batch = loader.next()) {
      const auto values = batch->data.as<float>();
      for (std::size_t i = 0; i < batch->indices.size(); ++i) {
        const std::vector<float> row = set.dense(batch->indices[i]);
        EXPECT_TRUE(std::ranges::equal(values.subspan(i * row.size(), row.size()), row))
            << "row " << batch->indices[i] << ", chunks of " << chunk;
      }
    }
  }
}

TEST(SparseFormatTypes, have_room_for_all_offsets) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(index_dtype_for(0), DType::i32);
  EXPECT_EQ(index_dtype_for(kMost), DType::i32);
  EXPECT_EQ(index_dtype_for(kMost + 1), DType::i64);
}

}  // namespace
}  // namespace h5feed::test
