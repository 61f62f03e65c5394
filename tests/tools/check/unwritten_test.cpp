// SPDX-License-Identifier: Apache-2.0
// h5feed check: elements that were never written, which libhdf5 leaves out where the fill time is "never".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

// Creates a dataset (20,4) of bytes with fill value 7, and writes the first 5 rows, all of value 1, unless it
// is contiguous.
void create(H5TestFile& file, const std::string& name, H5D_fill_time_t fill_time, bool chunked) {
  const std::vector<hsize_t> shape = {20, 4}, chunk = {5, 4}, start = {0, 0};
  const unsigned char fill = 7;
  const Hid list(H5Pcreate(H5P_DATASET_CREATE));
  require(H5Pset_fill_value(list.get(), H5T_STD_U8LE, &fill), "H5Pset_fill_value");
  require(H5Pset_fill_time(list.get(), fill_time), "H5Pset_fill_time");
  if (chunked) require(H5Pset_chunk(list.get(), 2, chunk.data()), "H5Pset_chunk");
  const Hid space(H5Screate_simple(2, shape.data(), nullptr));
  const Hid dataset(
      H5Dcreate2(file.id(), name.c_str(), H5T_STD_U8LE, space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT));
  if (!chunked) return;
  const Hid rows(H5Screate_simple(2, chunk.data(), nullptr));
  require(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, chunk.data(), nullptr),
          "H5Sselect_hyperslab");
  const std::vector<unsigned char> ones(20, 1);
  require(H5Dwrite(dataset.get(), H5T_STD_U8LE, rows.get(), space.get(), H5P_DEFAULT, ones.data()),
          "H5Dwrite");
}

class Unwritten : public ::testing::Test {
 protected:
  Unwritten() {
    H5TestFile file(dir_ / "a.h5");
    create(file, "never", H5D_FILL_TIME_NEVER, true);
    create(file, "if_set", H5D_FILL_TIME_IFSET, true);
    create(file, "never_flat", H5D_FILL_TIME_NEVER, false);
  }

  TempDir dir_;
};

TEST_F(Unwritten, is_no_difference_whatever_the_fill_time) {
  const ProgramResult result = run_program(dir_.path(), {"check", "a.h5", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  ASSERT_EQ(json["datasets"].size(), 3U);
  for (const auto& dataset : json["datasets"]) {
    EXPECT_EQ(dataset["result"], "equal") << dataset;
    EXPECT_EQ(dataset["read_path"], "direct");
  }
  EXPECT_EQ(json["datasets"][0]["sha256"], json["datasets"][1]["sha256"]);
}

TEST_F(Unwritten, is_the_fill_value_also_where_libhdf5_reads) {
  const auto file = H5File::open(dir_ / "a.h5");
  for (const std::string name : {"never", "if_set", "never_flat"}) {
    std::vector<std::byte> values(15 * 4, std::byte{99});
    const std::vector<std::uint64_t> start = {5, 0}, count = {15, 4};
    file->read_hyperslab(file->describe(name), start, count, values);
    EXPECT_EQ(std::ranges::count(values, std::byte{7}), 60) << name;
  }
}

}  // namespace
}  // namespace h5feed::test
