// SPDX-License-Identifier: Apache-2.0
// The program closes libhdf5 while loaders are at work. A binary of its own, since nothing opens files after
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstdint>
#include <optional>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

TEST(ClosedLibrary, is_named_and_nothing_that_the_program_opens_afterwards_is_touched) {
  const SampleSet set({.shape = {20, 4}, .chunk_shape = {3, 4}, .gzip = 1});
  std::optional<Dataset> dataset(open(set));
  DataLoader loader(*dataset, {.batch_size = 4});
  ASSERT_TRUE(loader.next());

  H5close();

  std::int64_t samples = 4;
  while (const std::optional<Batch> batch = loader.next()) samples += batch->size();
  EXPECT_EQ(samples, 20) << "chunks are read without libhdf5";
  EXPECT_THAT(refusal_of<FileError>([&] { open(set); }),
              HasSubstr("the program has closed libhdf5 (H5close)"));

  const hid_t first = H5Fopen(set.path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t opened = H5Dopen2(first, "images", H5P_DEFAULT);
  ASSERT_GE(opened, 0);
  dataset.reset();
  EXPECT_GT(H5Iis_valid(first), 0);
  EXPECT_GT(H5Iis_valid(opened), 0);
  H5Dclose(opened);
  H5Fclose(first);
}

}  // namespace
}  // namespace h5feed::test
