// SPDX-License-Identifier: Apache-2.0
// Files that libhdf5 reads for h5feed while the rest of the program uses libhdf5, too.
#include "store/driver/unlocked_driver.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "base/files/file_descriptor.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
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

// What the program has written may be in libhdf5's memory only: metadata, indexes and chunks.
TEST_F(UnlockedDriver, reads_what_the_program_has_written_and_not_flushed) {
  const Hid locked(H5Pcreate(H5P_FILE_ACCESS)), unlocked(H5Pcreate(H5P_FILE_ACCESS)),
      latest(H5Pcreate(H5P_FILE_ACCESS));
  require(H5Pset_file_locking(unlocked.get(), false, true), "H5Pset_file_locking");
  require(H5Pset_libver_bounds(latest.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), "H5Pset_libver_bounds");
  const hsize_t extent = 50, chunk = 7;
  const Hid space(H5Screate_simple(1, &extent, nullptr));
  const Hid chunked(H5Pcreate(H5P_DATASET_CREATE));
  require(H5Pset_chunk(chunked.get(), 1, &chunk), "H5Pset_chunk");
  require(H5Pset_deflate(chunked.get(), 1), "H5Pset_deflate");
  for (const hid_t access : {locked.get(), unlocked.get(), latest.get()}) {
    for (const bool file_is_closed : {false, true}) {
      Hid file(H5Fcreate(path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access));
      const Hid dataset(
          H5Dcreate2(file.get(), "x", H5T_STD_U8LE, space.get(), H5P_DEFAULT, chunked.get(), H5P_DEFAULT));
      if (file_is_closed) file = Hid();  // The dataset keeps it open
      for (const unsigned seed : {1U, 2U}) {
        const std::vector<std::byte> values = random_bytes(50, seed);
        require(H5Dwrite(dataset.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
                "H5Dwrite");
        const auto opened = H5File::open(path());
        const auto reader = open_chunk_reader(opened, opened->describe("x"));
        EXPECT_TRUE(reader->direct());
        const ByteBuffer read = read_all(*reader, 1);
        EXPECT_EQ(std::vector(read.span().begin(), read.span().end()), values) << file_is_closed << seed;
      }
    }
  }
}

// Also after it has read through libhdf5, and while the program had the file open.
TEST_F(UnlockedDriver, keeps_nothing_open_that_the_program_closes) {
  const std::vector<std::byte> values = patterned_bytes(5);
  auto file = std::make_unique<H5TestFile>(path());
  file->create({.shape = {5}});
  file->write("x", values);
  const auto opened = H5File::open(path());
  std::vector<std::byte> read(5);
  opened->read_rows(opened->describe("x"), 0, 5, read);
  EXPECT_EQ(read, values);
  file = nullptr;
  const FileDescriptor descriptor(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(::flock(descriptor.get(), LOCK_EX | LOCK_NB), 0) << "libhdf5 still holds its lock";
  EXPECT_EQ(::flock(descriptor.get(), LOCK_UN), 0);
  EXPECT_NO_THROW(H5TestFile{path()}) << "it may be written anew";
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
