// SPDX-License-Identifier: Apache-2.0
// Sparse rows as tensors of LibTorch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "h5feed/torch.hpp"
#include "support/files/sparse_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

TEST(TorchSparse, rows_are_sparse_tensors_that_outlive_the_loader) {
  const TempDir dir;
  const SparseRowsSet set = random_rows(50, 30);
  {
    SparseFile file(dir / "cells.h5ad");
    file.matrix("X", set, 64);
  }
  const auto data = Dataset::open({.files = {dir / "cells.h5ad"}, .data = "X"});
  std::vector<torch::Tensor> rows;
  std::vector<std::int64_t> samples;
  {
    const auto loader = make_data_loader(data, {.batch_size = 8, .shuffle = true, .num_workers = 1});
    for (auto& batch : *loader) {
      EXPECT_EQ(batch.data.layout(), torch::kSparseCsr);
      rows.push_back(batch.data);
      samples.insert(samples.end(), batch.indices.begin(), batch.indices.end());
    }
  }
  ASSERT_EQ(samples.size(), 50u);
  std::size_t sample = 0;
  for (const torch::Tensor& batch : rows) {
    const torch::Tensor dense = batch.to_dense();
    for (std::int64_t i = 0; i < dense.size(0); ++i) {
      const std::vector<float> row = set.dense(samples[sample++]);
      EXPECT_TRUE(torch::equal(dense[i], torch::tensor(row)));
    }
  }
  EXPECT_THAT(refusal_of<OptionError>([&] { TorchDataset{data}; }), HasSubstr("sparse.format = dense"));
}

}  // namespace
}  // namespace h5feed::test
