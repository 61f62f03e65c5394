// SPDX-License-Identifier: Apache-2.0
// Files that libhdf5 reads for h5feed while the rest of the program uses libhdf5, too.
#include "store/driver/unlocked_driver.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "h5feed/error.hpp"
#include "store/hdf5/h5_file.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

class UnlockedDriver : public testing::Test {
 protected:
  std::filesystem::path path() const { return dir_ / "train.h5"; }

  TempDir dir_;
};

// libhdf5 opens no file twice with different settings of locks.
TEST_F(UnlockedDriver, leaves_its_file_to_the_host_program) {
  const std::vector<std::byte> values = patterned_bytes(30);
  {
    H5TestFile file(path());
    file.create({.shape = {30}});
    file.write("x", values);
  }
  const auto file = H5File::open(path());
  const DatasetInfo info = file->describe("x");
  std::vector<std::byte> row(1);
  file->read_rows(info, 7, 1, row);
  {
    const Hid own(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    const Hid dataset(H5Dopen2(own.get(), "x", H5P_DEFAULT));
    std::vector<std::byte> changed(30, std::byte{99});
    require(H5Dwrite(dataset.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, changed.data()),
            "H5Dwrite");
  }
  EXPECT_EQ(row.front(), values[7]);
  H5File::open(path())->read_rows(info, 7, 1, row);
  EXPECT_EQ(row.front(), std::byte{99});
}

// What the program has written may be in libhdf5's memory only.
TEST_F(UnlockedDriver, shares_what_the_host_program_has_not_yet_written) {
  const Hid unlocked(H5Pcreate(H5P_FILE_ACCESS));
  require(H5Pset_file_locking(unlocked.get(), false, true), "H5Pset_file_locking");
  const hsize_t extent = 5;
  const Hid space(H5Screate_simple(1, &extent, nullptr));
  for (const hid_t access : {hid_t{H5P_DEFAULT}, unlocked.get()}) {
    for (const bool file_is_closed : {false, true}) {
      Hid file(H5Fcreate(path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access));
      const Hid dataset(
          H5Dcreate2(file.get(), "x", H5T_STD_U8LE, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      const std::vector<std::byte> values = patterned_bytes(5);
      require(H5Dwrite(dataset.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
              "H5Dwrite");
      if (file_is_closed) file = Hid();  // The dataset keeps it open
      const auto shared = H5File::open(path());
      std::vector<std::byte> read(5);
      shared->read_rows(shared->describe("x"), 0, 5, read);
      EXPECT_EQ(read, values) << file_is_closed;
    }
  }
}

// libhdf5's own driver returns zeros.
TEST_F(UnlockedDriver, names_the_file_that_was_cut_short_while_libhdf5_reads_it) {
  {
    H5TestFile file(path());
    file.create({.shape = {3000}});
    file.write("x", patterned_bytes(3000));
  }
  const auto file = H5File::open(path());
  const DatasetInfo info = file->describe("x");
  std::vector<std::byte> rows(3000);
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) - 10);
  EXPECT_THAT(
      refusal_in<FileError>(dir_.path(), [&] { file->read_rows(info, 0, 3000, rows); }),
      testing::AllOf(testing::StartsWith("train.h5:/x: libhdf5 cannot read 3000 elements at (0): the file "
                                         "ended while reading "),
                     testing::HasSubstr("it changed while in use, open it again")));
}

}  // namespace
}  // namespace h5feed::test
