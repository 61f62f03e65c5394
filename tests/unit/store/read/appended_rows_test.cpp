// SPDX-License-Identifier: Apache-2.0
// Rows that a program appends to a file, without SWMR mode, while a dataset of it is in use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/error.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kRows = 20, kChunkRows = 8, kWidth = 500;
constexpr std::uint64_t kFirstOfLastChunk = 16;

// A file with rows of `x`, all values of a row being its number, in chunks of 8 rows; the last has 4.
class AppendedRows : public ::testing::TestWithParam<bool> {
 protected:
  AppendedRows() {
    H5TestFile file(path(), {.latest = GetParam()});
    file.create({.path = "x",
                 .file_type = H5T_STD_U32LE,
                 .shape = {0, kWidth},
                 .max_shape = {~std::uint64_t{0}, kWidth},
                 .chunk = {kChunkRows, kWidth},
                 .filters = {gzip_filter(1)}});
    append(file.id(), 0, kRows);
  }

  std::filesystem::path path() const { return dir_ / "grow.h5"; }

  static std::vector<std::uint32_t> row(std::uint64_t number) {
    std::vector<std::uint32_t> values(kWidth);
    // Compresses to about as many bytes whatever the number is.
    for (std::size_t i = 0; i < kWidth; ++i)
      values[i] = static_cast<std::uint32_t>((number + 1) * 2654435761U * (i + 7));
    return values;
  }

  // Appends as h5py does, which opens the file, writes and closes it.
  void append(std::uint64_t to) {
    const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    append(file.get(), to_, to);
  }

  void append(hid_t file, std::uint64_t from, std::uint64_t to) {
    const Hid x(H5Dopen2(file, "x", H5P_DEFAULT));
    const hsize_t extent[] = {to, kWidth}, start[] = {from, 0}, count[] = {to - from, kWidth};
    require(H5Dset_extent(x.get(), extent), "H5Dset_extent");
    const Hid space(H5Dget_space(x.get()));
    require(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start, nullptr, count, nullptr), "select");
    const Hid memory(H5Screate_simple(2, count, nullptr));
    std::vector<std::uint32_t> values;
    for (std::uint64_t number = from; number < to; ++number) {
      const auto next = row(number);
      values.insert(values.end(), next.begin(), next.end());
    }
    require(H5Dwrite(x.get(), H5T_NATIVE_UINT32, memory.get(), space.get(), H5P_DEFAULT, values.data()),
            "H5Dwrite");
    to_ = to;
  }

  // Reads an epoch in order. Returns the message of the error that ended it, else "whole"; fails where a
  // value is wrong.
  std::string epoch(DataLoader& loader) const {
    std::uint64_t samples = 0;
    try {
      while (const auto batch = loader.next()) {
        for (std::size_t i = 0; i < batch->indices.size(); ++i, ++samples) {
          const auto expected = row(static_cast<std::uint64_t>(batch->indices[i]));
          EXPECT_EQ(std::memcmp(batch->data.bytes.get() + i * kWidth * 4, expected.data(), kWidth * 4), 0)
              << batch->indices[i];
        }
      }
    } catch (const FileError& error) {
      EXPECT_EQ(samples, kFirstOfLastChunk);
      return error.what();
    }
    return "whole";
  }

  static DataLoaderOptions in_order() { return {.batch_size = 4, .cache_bytes = 0}; }

  const TempDir dir_;
  std::uint64_t to_ = 0;
};

TEST_P(AppendedRows, that_move_a_chunk_are_an_error_of_loaders_that_were_made_before) {
  Dataset dataset = Dataset::open({.files = {path()}, .data = "x", .input_layout = InputLayout::none});
  DataLoader before(dataset, in_order());
  EXPECT_EQ(epoch(before), "whole");
  for (const std::uint64_t rows : {33U, 46U, 59U}) append(rows);
  EXPECT_THAT(epoch(before),
              HasSubstr("chunk (2,0) (samples 16-19) cannot be read: rows were appended to it since "
                        "it was opened, and the bytes of its last chunks may now be others'; "
                        "refresh() the dataset and make a new loader"));
  dataset.refresh();
  DataLoader after(dataset, in_order());
  EXPECT_EQ(epoch(after), "whole");
  EXPECT_EQ(dataset.size(), 59);
}

TEST_P(AppendedRows, do_not_end_loaders_where_something_else_is_written_to_the_file) {
  const Dataset dataset = Dataset::open({.files = {path()}, .data = "x", .input_layout = InputLayout::none});
  DataLoader loader(dataset, in_order());
  {
    const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    const hsize_t size = 100'000;
    const Hid space(H5Screate_simple(1, &size, nullptr));
    const std::vector<std::uint8_t> values(size, 7);
    const Hid other(
        H5Dcreate2(file.get(), "other", H5T_STD_U8LE, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    require(H5Dwrite(other.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
            "H5Dwrite");
  }
  EXPECT_EQ(epoch(loader), "whole");
  EXPECT_EQ(epoch(loader), "whole");
}

TEST_P(AppendedRows, do_not_end_loaders_of_a_file_that_was_replaced) {
  const Dataset dataset = Dataset::open({.files = {path()}, .data = "x", .input_layout = InputLayout::none});
  DataLoader loader(dataset, in_order());
  std::filesystem::copy_file(path(), dir_ / "copy.h5");
  std::filesystem::rename(dir_ / "copy.h5", path());
  append(33);
  EXPECT_EQ(epoch(loader), "whole") << "what is open is the old file";
}

INSTANTIATE_TEST_SUITE_P(Formats, AppendedRows, ::testing::Bool(), [](const auto& latest) {
  return std::string(latest.param ? "extensible_array" : "tree");
});

}  // namespace
}  // namespace h5feed::test
