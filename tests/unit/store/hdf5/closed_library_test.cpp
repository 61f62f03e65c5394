// SPDX-License-Identifier: Apache-2.0
// The program, or its end, closes libhdf5 before what uses it. A binary of its own, since nothing opens files
// afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/h5_file.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/sample_set.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/loader_cases.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

// In static storage and assigned late: destroyed after libhdf5's exit handler has run.
std::shared_ptr<H5File> global_file;

TEST(ClosedLibraryDeathTest, destruction_after_libhdf5_ended_prints_nothing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        {
          const TempDir dir;
          { H5TestFile(dir / "x.h5").create({.shape = {3}}); }
          global_file = H5File::open(dir / "x.h5");
          std::vector<std::byte> row(1);
          global_file->read_rows(global_file->describe("x"), 0, 1, row);
        }
        std::exit(0);
      },
      testing::ExitedWithCode(0), testing::Eq(""));
}

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
