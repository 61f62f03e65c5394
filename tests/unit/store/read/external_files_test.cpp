// SPDX-License-Identifier: Apache-2.0
// Datasets whose values are stored in other files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "h5feed/error.hpp"
#include "store/read/file_pool.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/chunk_reader_file.hpp"
#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"

namespace h5feed::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

struct Part {
  std::string file;
  off_t offset;
  hsize_t bytes;
};

class ExternalFiles : public StoreChunkReader {
 protected:
  // Writes the dataset "images" of patterned values, which it returns in the host's byte order.
  Bytes write_in(const std::vector<Part>& parts, const std::vector<hsize_t>& shape,
                 hid_t type = H5T_STD_U8LE) {
    const H5TestFile file(path());
    const Hid plist(H5Pcreate(H5P_DATASET_CREATE));
    for (const Part& part : parts) {
      require(H5Pset_external(plist.get(), (dir_ / part.file).c_str(), part.offset, part.bytes),
              "H5Pset_external");
    }
    const Hid space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
    const Hid dataset(
        H5Dcreate2(file.id(), "images", type, space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT));
    const Hid memory(H5Tget_native_type(type, H5T_DIR_DEFAULT));
    Bytes values = patterned_bytes(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get())) *
                                   H5Tget_size(type));
    require(H5Dwrite(dataset.get(), memory.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "H5Dwrite");
    return values;
  }

  static Bytes values_of(const ChunkReader& reader) {
    const ByteBuffer bytes = read_all(reader, 2);
    return {bytes.data(), bytes.data() + bytes.size()};
  }
};

TEST_F(ExternalFiles, are_read_without_libhdf5_across_their_borders) {
  // The borders are in the middle of rows of 10 bytes, and one file has two of the parts.
  const Bytes values = write_in({{"b", 7, 33}, {"a", 0, 1}, {"b", 100, 66}, {"c", 4096, H5F_UNLIMITED}},
                                {20, 5}, H5T_STD_U16BE);
  const auto reader = open();
  EXPECT_TRUE(reader->direct());
  EXPECT_EQ(values_of(*reader), values);
  EXPECT_EQ(read_through_libhdf5(path(), "images"), values);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ExternalFiles, deliver_single_rows_straight_into_several_buffers) {
  const Bytes values = write_in({{"a", 3, 25}, {"b", 0, 75}}, {10, 10});
  const auto reader = open();
  ASSERT_TRUE(reader->rows_readable());
  for (std::uint64_t first = 0; first < 10; ++first) {
    const std::uint64_t count = std::min<std::uint64_t>(3, 10 - first);
    Bytes rows(count * 10);
    const std::span<std::byte> all(rows);
    const std::vector<std::span<std::byte>> outs = {all.first(4), all.subspan(4)};
    reader->hint_rows(first, count);
    EXPECT_EQ(reader->read_rows(first, count, outs).bytes_read, count * 10);
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first * 10);
    EXPECT_TRUE(std::equal(rows.begin(), rows.end(), begin)) << first;
    EXPECT_TRUE(reader->row_resident(first));
  }
}

TEST_F(ExternalFiles, are_opened_as_few_at_a_time_as_the_pool_allows) {
  std::vector<Part> parts;
  for (int i = 0; i < 40; ++i) parts.push_back({"part" + std::to_string(i), 0, 50});
  const Bytes values = write_in(parts, {200, 10});
  const auto pool = std::make_shared<FilePool>(3, 1);
  const auto file = pool->open(path());
  const auto reader = pool->reader(file, file->describe("images"), {.pool = pool});
  EXPECT_EQ(values_of(*reader), values);
  EXPECT_LE(pool->num_open(), 3U);
}

TEST_F(ExternalFiles, are_found_by_the_variable_of_libhdf5) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir_.path());
  Bytes values;
  {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {8}, .external_file = "raw"});
    values = patterned_bytes(8);
    file.write("images", values);
  }
  const auto reader = open();
  std::filesystem::current_path(before);
  EXPECT_EQ(values_of(*reader), values) << "opened where it was when it was found";
  std::filesystem::create_directory(dir_ / "moved");
  std::filesystem::rename(dir_ / "raw", dir_ / "moved" / "raw");
  ::setenv("HDF5_EXTFILE_PREFIX", "${ORIGIN}/moved", 1);
  EXPECT_EQ(values_of(*open()), values);
  ::unsetenv("HDF5_EXTFILE_PREFIX");
  EXPECT_THAT(open_message(), HasSubstr("raw, which cannot be opened: No such file or directory"));
}

// libhdf5 returns zeros for what is missing.
TEST_F(ExternalFiles, that_are_cut_short_while_they_are_read_are_named) {
  write_in({{"a", 0, 50}, {"b", 0, 50}}, {10, 10});
  const auto reader = open();
  Bytes row(10);
  reader->read_rows(9, 1, row);
  std::filesystem::resize_file(dir_ / "b", 20);
  reader->read_rows(6, 1, row);
  const std::string text = without_directory(refusal_of<FileError>([&] { reader->read_rows(8, 1, row); }));
  EXPECT_THAT(text,
              HasSubstr("train.h5:/images: chunk (0,0) (samples 0-9) cannot be read: b: the file ended"));
}

TEST_F(ExternalFiles, that_were_replaced_while_they_were_closed_are_named) {
  write_in({{"a", 0, 50}, {"b", 0, 50}}, {10, 10});
  const auto pool = std::make_shared<FilePool>(1, 1);
  const auto file = pool->open(path());
  const auto reader = pool->reader(file, file->describe("images"), {.pool = pool});
  std::filesystem::copy_file(dir_ / "b", dir_ / "c");
  std::filesystem::rename(dir_ / "c", dir_ / "b");
  Bytes row(10);
  reader->read_rows(0, 1, row);
  EXPECT_THAT(refusal_of<FileError>([&] { reader->read_rows(8, 1, row); }),
              HasSubstr("was replaced or cut short since it was opened"));
}

TEST_F(ExternalFiles, with_less_room_than_the_shape_needs_are_refused) {
  constexpr std::uint64_t kRoom = 0x0123456789;
  write_in({{"a", 0, kRoom}}, {10, 10});
  replace_address(path(), kRoom, 99);
  // Newer versions of libhdf5 refuse it themselves.
  EXPECT_THAT(
      open_message(),
      AnyOf("train.h5:/images: its external files have room for 99 bytes, the shape 10×10 u8 needs 100; "
            "restore the file from a good copy",
            HasSubstr("train.h5:/images: libhdf5 cannot open it: dataspace size exceeds external "
                      "storage size")));
}

}  // namespace
}  // namespace h5feed::test
