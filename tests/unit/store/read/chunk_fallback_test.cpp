// SPDX-License-Identifier: Apache-2.0
// Datasets that libhdf5 has to read, and how that is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "h5feed/error.hpp"
#include "store/index/chunk_index.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/chunk_reader_file.hpp"
#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/identity_filter.hpp"

namespace h5feed::test {
namespace {

TEST_F(StoreChunkReader, falls_back_for_sources_of_another_type_and_says_so_once) {
  const Bytes values = patterned_bytes(40 * 5);
  H5TestFile(path()).create_converted("images", {40, 5}, values);
  const auto reader = open();
  EXPECT_FALSE(reader->direct());
  EXPECT_EQ(reader->fallback_reason(), "it is a virtual dataset of sources of another type or shape");
  const ByteBuffer bytes = read_all(*reader, 2);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), bytes.data(), bytes.data() + bytes.size()));
  EXPECT_THAT(warnings_,
              testing::ElementsAre("train.h5:/images: reading through libhdf5's lock, one chunk at a "
                                   "time (it is a virtual dataset of sources of another type or shape)"));
  ReadScratch scratch;
  Bytes out(reader->chunk_bytes());
  EXPECT_TRUE(reader->read_chunk(0, out, scratch).fallback);
  EXPECT_EQ(reader->rows_readable(), false);
}

TEST_F(StoreChunkReader, falls_back_for_filters_that_libhdf5_has) {
  TestDataset dataset{.path = "images", .file_type = H5T_STD_U16BE, .shape = {13, 7}, .chunk = {4, 3}};
  dataset.filters = {identity_filter()};
  const Bytes values = write(dataset);
  const auto reader = open();
  EXPECT_FALSE(reader->direct());
  const ByteBuffer bytes = read_all(*reader, 3);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), bytes.data(), bytes.data() + bytes.size()));
  EXPECT_THAT(warnings_,
              testing::ElementsAre("train.h5:/images: reading through libhdf5's lock, one chunk at a "
                                   "time (filter 300 identity is not built in)"));
}

TEST_F(StoreChunkReader, reads_virtual_datasets_from_their_sources) {
  const Bytes values = write({.path = "images", .shape = {13, 7}});
  {
    const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    const hsize_t shape[] = {13, 7};
    const Hid space(H5Screate_simple(2, shape, nullptr));
    const Hid plist(H5Pcreate(H5P_DATASET_CREATE));
    test::require(H5Pset_virtual(plist.get(), space.get(), ".", "images", space.get()), "H5Pset_virtual");
    const Hid dataset(
        H5Dcreate2(file.get(), "view", H5T_STD_U8LE, space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT));
  }
  const auto reader = open("view");
  EXPECT_TRUE(reader->direct());
  const ByteBuffer bytes = read_all(*reader, 1);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), bytes.data(), bytes.data() + bytes.size()));
}

TEST_F(StoreChunkReader, refuses_filters_that_nobody_has) {
  const std::vector<FilterSpec> filters = {{.id = 32024, .optional = true, .name = "sz3"}};
  {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {8, 6}, .chunk = {4, 6}, .filters = filters});
    file.write_chunk("images", Shape{0, 0}, test::patterned_bytes(17));
  }
  EXPECT_EQ(
      without_directory(refusal_of<DatasetError>([&] { open(); })),
      "train.h5:/images: filter 32024 (sz3) is not built in and libhdf5 finds no plugin for it; install "
      "the plugin and set HDF5_PLUGIN_PATH, or write the dataset once with gzip");
}

TEST_F(StoreChunkReader, names_the_parameters_that_a_known_filter_is_refused_for) {
  const auto refused = [&](const FilterSpec& filter) {
    {
      H5TestFile file(path());
      file.create({.path = "images", .shape = {8, 6}, .chunk = {4, 6}, .filters = {filter}});
      file.write_chunk("images", Shape{0, 0}, test::patterned_bytes(17));
    }
    return without_directory(refusal_of<DatasetError>([&] { open(); }));
  };
  constexpr const char* kNextStep =
      " and libhdf5 finds no plugin for it; install the plugin and set HDF5_PLUGIN_PATH, or write the "
      "dataset "
      "once with gzip";
  EXPECT_EQ(refused({.id = filter_id::kBitshuffle, .optional = true, .params = {0, 4, 1, 12, 2}}),
            std::string("train.h5:/images: filter 32008 (bitshuffle) has blocks that are no multiple of 8 "
                        "elements (12)") +
                kNextStep);
  EXPECT_EQ(
      refused({.id = filter_id::kBitshuffle, .optional = true, .params = {0, 4, 1, 8, 1}}),
      std::string("train.h5:/images: filter 32008 (bitshuffle) compresses with an unknown codec (1; known "
                  "are 0 none, 2 lz4, 3 zstd)") +
          kNextStep);
}

TEST_F(StoreChunkReader, reads_bitshuffle_of_small_blocks_without_libhdf5) {
  const FilterSpec filter{.id = filter_id::kBitshuffle, .optional = true, .params = {0, 4, 1, 16, 2}};
  const Bytes values = test::patterned_bytes(24);
  {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {4, 6}, .chunk = {4, 6}, .filters = {filter}});
    file.write_chunk("images", Shape{0, 0}, FilterPipeline({filter}, 24, 1).encode(values));
  }
  const auto reader = open();
  EXPECT_TRUE(reader->direct());
  const ByteBuffer bytes = read_all(*reader, 2);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), bytes.data()));
}

TEST_F(StoreChunkReader, reads_chunks_that_skipped_an_unknown_filter) {
  const std::vector<FilterSpec> filters = {{.id = 32024, .optional = true, .name = "sz3"}};
  const Bytes values = test::patterned_bytes(24);
  {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {8, 6}, .chunk = {4, 6}, .filters = filters});
    file.write_chunk("images", Shape{4, 0}, values, 1);
  }
  const auto reader = open();
  EXPECT_TRUE(reader->direct());
  const ByteBuffer bytes = read_all(*reader, 1);
  EXPECT_TRUE(std::all_of(bytes.data(), bytes.data() + 24, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_TRUE(std::equal(values.begin(), values.end(), bytes.data() + 24));
}

TEST_F(StoreChunkReader, falls_back_where_a_chunk_lies_outside_the_file) {
  write({.path = "images", .shape = {12, 6}, .chunk = {4, 6}});
  std::uint64_t address = 0;
  {
    const auto file = H5File::open(path());
    address = build_chunk_index(*file, file->describe("images")).locations[1].address;
  }
  for (const std::uint64_t hostile : {std::uint64_t{1} << 40, std::uint64_t{0x7fffffffffffff00}}) {
    write({.path = "images", .shape = {12, 6}, .chunk = {4, 6}});
    replace_address(path(), address, hostile);
    warnings_.clear();
    const auto reader = open();
    EXPECT_FALSE(reader->direct());
    EXPECT_EQ(warnings_.size(), 1U);
    EXPECT_EQ(read_message<FileError>(*reader, 0), "accepted");
    EXPECT_THAT(read_message<FileError>(*reader, 1),
                testing::StartsWith("train.h5:/images: chunk (1,0) (samples 4-7) cannot be read: "));
  }
}

TEST_F(StoreChunkReader, decodes_outside_libhdf5_where_the_index_cannot_be_listed) {
  const TestDataset dataset{.path = "images",
                            .file_type = H5T_STD_I16BE,
                            .shape = {14, 6},
                            .max_shape = {14, 6},
                            .chunk = {4, 6},
                            .filters = parse_filters("shuffle+gzip:4", 2),
                            .unfiltered_edges = true,
                            .fill_value = {std::byte{1}, std::byte{2}}};
  Bytes written = test::patterned_bytes(8 * 12);
  {
    H5TestFile file(path(), {.latest = true});
    file.create(dataset);
    file.write_box("images", Shape{0, 0}, Shape{8, 6}, written);
    file.write_box("images", Shape{13, 0}, Shape{1, 6}, std::span(written).first(12));
  }
  const Bytes expected = test::read_through_libhdf5(path(), "images");
  const auto file = H5File::open(path());
  const DatasetInfo info = file->describe("images");
  const ChunkIndex index = build_chunk_index(*file, info);
  ASSERT_FALSE(index.locations[2].allocated());
  const auto reader = make_fallback_reader(info, file, "the index cannot be listed");
  const ByteBuffer bytes = read_all(*reader, 3);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes.data(), bytes.data() + bytes.size()));
  ReadScratch scratch;
  Bytes out(reader->chunk_bytes());
  EXPECT_EQ(reader->read_chunk(0, out, scratch).bytes_read, index.locations[0].stored_bytes);
  EXPECT_LE(index.locations[0].stored_bytes, reader->max_stored_bytes());
}

TEST_F(StoreChunkReader, names_a_corrupt_chunk_on_the_fallback_path) {
  write({.path = "images", .shape = {8, 6}, .chunk = {4, 6}, .filters = kGzip});
  const auto intact = H5File::open(path());
  const DatasetInfo info = intact->describe("images");
  const std::uint64_t address = build_chunk_index(*intact, info).locations[1].address;
  Bytes bytes = test::file_bytes(path());
  bytes[address + 3] ^= std::byte{0xff};
  test::replace_file(path(), bytes);
  const auto reader = make_fallback_reader(info, H5File::open(path()), "the index cannot be listed");
  EXPECT_EQ(read_message<ChunkError>(*reader, 0), "accepted");
  EXPECT_THAT(read_message<ChunkError>(*reader, 1),
              testing::StartsWith("train.h5:/images: chunk (1,0) (samples 4-7) is corrupt: deflate: "));
}

}  // namespace
}  // namespace h5feed::test
