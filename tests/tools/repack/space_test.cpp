// SPDX-License-Identifier: Apache-2.0
// The room that h5feed repack needs on the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/files/h5_test_file.hpp"
#include "support/files/image_bytes.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

TEST(RepackSpace, values_of_variable_length_need_about_what_they_take) {
  const TempDir dir;
  constexpr std::size_t kDatasets = 6, kRows = 2000, kRowBytes = 1000;
  {
    H5TestFile file(dir / "a.h5");
    file.create({.path = "images", .shape = {8, 4, 4}, .chunk = {4, 4, 4}});
    file.write("images", patterned_bytes(8 * 4 * 4));
    for (std::size_t i = 0; i < kDatasets; ++i) {
      std::vector<Bytes> rows;
      for (std::size_t row = 0; row < kRows; ++row)
        rows.push_back(patterned_bytes(kRowBytes, static_cast<unsigned>(row)));
      write_ragged(file, "texts" + std::to_string(i), rows);
    }
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit room = {std::filesystem::file_size(dir / "a.h5") + (4 << 20), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &room), 0);
  const ProgramResult result = run_program(dir.path(), {"repack", "a.h5", "b.h5", "--chunk", "2"});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(result.exit_code, 0) << result.err;  // and the copy was compared with its source
}

TEST(RepackSpace, rows_in_another_order_are_not_stored_where_the_source_stores_none) {
  const TempDir dir;
  constexpr hsize_t kRows = 4'000'000;
  {
    H5TestFile file(dir / "a.h5");
    file.create({.path = "empty", .shape = {kRows}, .chunk = {100'000}, .fill_value = {std::byte{5}}});
    file.create({.path = "rows", .shape = {kRows}, .chunk = {100'000}, .filters = {gzip_filter(9)}});
    file.write("rows", std::vector<std::byte>(kRows, std::byte{3}));
  }
  const ProgramResult result = run_program(dir.path(), {"repack", "a.h5", "b.h5", "--dataset", "rows",
                                                        "--chunk", "200000", "--shuffle-rows", "7"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_LT(std::filesystem::file_size(dir / "b.h5"), kRows / 10);
  EXPECT_EQ(read_through_libhdf5(dir / "b.h5", "empty"), std::vector<std::byte>(kRows, std::byte{5}));
}

TEST(RepackSpace, a_small_file_of_very_many_chunks_is_not_written_out) {
  const TempDir dir;
  {
    H5TestFile file(dir / "a.h5");
    file.create({.path = "images", .shape = {1'100'000, 3, 64, 64}, .chunk = {1, 3, 64, 64}});
    file.create({.path = "rows", .shape = {10, 4}, .chunk = {5, 4}});
  }
  const ProgramResult result = run_program(dir.path(), {"repack", "a.h5", "b.h5", "--chunk", "100"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(
      result.err,
      ::testing::EndsWith("\na.h5:/images: its 1,100,000 chunks are too many to find out which of them are "
                          "stored, and a copy would store them all; write the dataset once with larger "
                          "chunks\n"));
  // Left as it is, libhdf5 copies it.
  const ProgramResult other =
      run_program(dir.path(), {"repack", "a.h5", "b.h5", "--dataset", "rows", "--chunk", "2"});
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_LT(std::filesystem::file_size(dir / "b.h5"), 100'000U);
}

}  // namespace
}  // namespace h5feed::test
