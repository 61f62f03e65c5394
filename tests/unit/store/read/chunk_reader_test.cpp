// SPDX-License-Identifier: Apache-2.0
#include "store/read/chunk_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "store/index/chunk_index.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/chunk_reader_file.hpp"
#include "support/files/fault_source.hpp"
#include "support/files/h5_test_file.hpp"

namespace h5feed::test {
namespace {

TEST_F(StoreChunkReader, cuts_contiguous_data_into_runs_of_whole_rows) {
  write({.path = "images", .shape = {5000, 1000}});
  const auto reader = open();
  EXPECT_EQ(reader->chunk_shape(), (Shape{1048, 1000}));
  EXPECT_EQ(reader->grid(), (Shape{5, 1}));
  EXPECT_EQ(reader->num_chunks(), 5U);
  EXPECT_EQ(reader->chunk_bytes(), 1048000U);
  EXPECT_EQ(reader->scratch_bytes(), 0U);
  EXPECT_TRUE(reader->direct());
  EXPECT_EQ(without_directory(reader->describe_chunk(4)),
            "train.h5:/images: chunk (4,0) (samples 4192-4999)");
}

TEST_F(StoreChunkReader, keeps_one_row_at_least_where_rows_are_large) {
  write({.path = "images", .shape = {3, 2 << 20}});
  EXPECT_EQ(open()->chunk_shape(), (Shape{1, 2 << 20}));
  EXPECT_EQ(without_directory(open()->describe_chunk(2)), "train.h5:/images: chunk (2,0) (sample 2)");
}

TEST_F(StoreChunkReader, counts_what_a_read_costs) {
  write({.path = "images", .shape = {10, 100}, .chunk = {5, 100}, .filters = kGzip});
  const auto reader = open();
  ReadScratch scratch;
  Bytes out(reader->chunk_bytes());
  const ReadCost cost = reader->read_chunk(1, out, scratch);
  EXPECT_GT(cost.bytes_read, 0U);
  EXPECT_LE(cost.bytes_read, reader->max_stored_bytes());
  EXPECT_FALSE(cost.fallback);
}

TEST_F(StoreChunkReader, names_the_corrupt_chunk_and_its_samples) {
  write({.path = "images", .shape = {1250, 6}, .chunk = {100, 6}, .filters = kGzip});
  const auto file = H5File::open(path());
  const DatasetInfo info = file->describe("images");
  const ChunkIndex index = build_chunk_index(*file, info);
  Bytes bytes = test::file_bytes(path());
  bytes[index.locations[12].address + 2] ^= std::byte{0xff};
  test::replace_file(path(), bytes);
  const auto reader = open();
  EXPECT_EQ(
      read_message<ChunkError>(*reader, 12),
      "train.h5:/images: chunk (12,0) (samples 1200-1249) is corrupt: deflate: not a valid zlib stream; "
      "restore the file from a good copy");
  EXPECT_EQ(read_message<ChunkError>(*reader, 11), "accepted");
  EXPECT_THROW(read_all(*reader, 4), ChunkError);
}

TEST_F(StoreChunkReader, verifies_checksums) {
  write({.path = "images", .shape = {8, 6}, .chunk = {4, 6}, .filters = {{.id = 3, .name = "fletcher32"}}});
  const auto file = H5File::open(path());
  const ChunkIndex index = build_chunk_index(*file, file->describe("images"));
  Bytes bytes = test::file_bytes(path());
  bytes[index.locations[1].address + 5] ^= std::byte{1};
  test::replace_file(path(), bytes);
  EXPECT_EQ(
      read_message<ChunkError>(*open(), 1),
      "train.h5:/images: chunk (1,0) (samples 4-7) is corrupt: fletcher32: the checksum does not match; "
      "restore the file from a good copy");
}

TEST_F(StoreChunkReader, names_chunk_and_samples_of_a_failed_read) {
  for (const bool filtered : {false, true}) {
    write({.path = "images",
           .shape = {40, 6},
           .chunk = {10, 6},
           .filters = filtered ? kGzip : std::vector<FilterSpec>()});
    const auto file = H5File::open(path());
    const auto failing = std::make_shared<FaultSource>(file->bytes(), test::Fault{.failing_read = 1});
    const auto reader = open_chunk_reader(file, file->describe("images"), failing);
    EXPECT_EQ(read_message<FileError>(*reader, 0), "accepted");
    EXPECT_EQ(read_message<FileError>(*reader, 3),
              "train.h5:/images: chunk (3,0) (samples 30-39) cannot be read: injected input/output error");
    EXPECT_EQ(read_message<FileError>(*reader, 3), "accepted");
    EXPECT_EQ(failing->reads(), 3U);
    const auto ending = std::make_shared<FaultSource>(file->bytes(), test::Fault{.short_read = 0});
    EXPECT_EQ(read_message<FileError>(*open_chunk_reader(file, file->describe("images"), ending), 2),
              "train.h5:/images: chunk (2,0) (samples 20-29) cannot be read: injected end of file");
  }
}

TEST_F(StoreChunkReader, read_all_rethrows_and_stops_after_a_failure) {
  write({.path = "images", .shape = {1000, 6}, .chunk = {1, 6}});
  const auto file = H5File::open(path());
  for (const unsigned threads : {1U, 4U}) {
    const auto failing = std::make_shared<FaultSource>(file->bytes(), test::Fault{.failing_read = 5});
    EXPECT_THROW(read_all(*open_chunk_reader(file, file->describe("images"), failing), threads), FileError);
  }
}

TEST_F(StoreChunkReader, says_that_a_file_shrank_while_in_use) {
  write({.path = "images", .shape = {4, 1000}, .chunk = {1, 1000}});
  const auto reader = open();
  std::filesystem::resize_file(path(), 3000);
  EXPECT_THAT(
      read_message<FileError>(*reader, 3),
      testing::AllOf(testing::StartsWith("train.h5:/images: chunk (3,0) (sample 3) cannot be read: the file "
                                         "ended while reading 1,000 bytes at offset "),
                     testing::EndsWith("; it changed while in use, open it again")));
}

TEST_F(StoreChunkReader, reads_rows_of_unfiltered_chunks_only) {
  const Bytes values = write({.path = "images", .shape = {10, 6}, .chunk = {4, 6}});
  const auto reader = open();
  ASSERT_TRUE(reader->rows_readable());
  Bytes rows(12);
  reader->read_rows(5, 2, rows);
  EXPECT_EQ(rows, Bytes(values.begin() + 30, values.begin() + 42));
  EXPECT_THROW(reader->read_rows(3, 2, rows), std::invalid_argument) << "across chunks";
  EXPECT_THROW(reader->read_rows(9, 2, rows), std::invalid_argument) << "beyond the end";
  write({.path = "images", .shape = {10, 6}, .chunk = {4, 3}});
  EXPECT_FALSE(open()->rows_readable());
  write({.path = "images", .shape = {10, 6}, .chunk = {4, 6}, .filters = kGzip});
  EXPECT_FALSE(open()->rows_readable());
  const hid_t other_order = std::endian::native == std::endian::little ? H5T_STD_U16BE : H5T_STD_U16LE;
  write({.path = "images", .file_type = other_order, .shape = {10, 6}, .chunk = {4, 6}});
  EXPECT_FALSE(open()->rows_readable());
}

TEST_F(StoreChunkReader, refuses_chunks_that_do_not_exist_and_small_buffers) {
  write({.path = "images", .shape = {10, 6}, .chunk = {4, 6}});
  ReadScratch scratch;
  Bytes out(24);
  EXPECT_THROW(open()->read_chunk(3, out, scratch), std::invalid_argument);
  EXPECT_THROW(open()->read_chunk(0, std::span(out).first(23), scratch), std::invalid_argument);
}

TEST_F(StoreChunkReader, does_not_believe_a_stored_size_that_no_encoder_makes) {
  {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {8, 100}, .chunk = {4, 100}, .filters = kGzip});
    file.write("images", test::patterned_bytes(800));
    file.write_chunk("images", Shape{4, 0}, Bytes(70'000));
  }
  const auto reader = open();
  EXPECT_LT(reader->max_stored_bytes(), 1000u) << "one damaged size does not size every buffer";
  EXPECT_EQ(reader->stored_bytes(1), 0u) << "nor is it fetched ahead";
  ReadScratch scratch;
  Bytes out(400);
  EXPECT_NO_THROW(reader->read_chunk(0, out, scratch));
  EXPECT_THROW(reader->read_chunk(1, out, scratch), ChunkError);
}

TEST_F(StoreChunkReader, many_threads_read_the_same_bytes) {
  const Bytes values = write({.path = "images", .shape = {64, 50}, .chunk = {2, 50}, .filters = kGzip});
  const auto reader = open();
  std::vector<std::jthread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      ReadScratch scratch;
      Bytes out(reader->chunk_bytes());
      for (std::uint64_t i = 0; i < 200; ++i) {
        const std::uint64_t chunk = (i * 7 + t) % reader->num_chunks();
        reader->read_chunk(chunk, out, scratch);
        wrong[t] +=
            std::equal(out.begin(), out.end(), values.begin() + static_cast<std::ptrdiff_t>(chunk * 100)) ? 0
                                                                                                          : 1;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

// Reads a file with one damaged byte after another; ends the process with 0 where each was read or
// refused with one line.
[[noreturn]] void read_damaged(const std::filesystem::path& path, const Bytes& intact) {
  set_log_sink([](LogLevel, std::string_view) {});
  std::size_t delivered = 0;
  for (std::size_t at = 0; at < intact.size(); at += 11) {
    Bytes bytes = intact;
    bytes[at] ^= std::byte{0xa5};
    test::replace_file(path, bytes);
    try {
      const auto file = H5File::open(path);
      const auto reader = open_chunk_reader(file, file->describe("images"));
      // A damaged shape may claim terabytes; what a loader's budget refuses is not read here either.
      if (reader->info().total_bytes() > (1U << 24) || reader->chunk_bytes() > (1U << 24)) continue;
      delivered += read_all(*reader, 1).size();
    } catch (const Error& error) {
      if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::_Exit(2);
    }
  }
  // No exit handlers: libhdf5 1.10 loses memory on some damaged files and complains of it at exit.
  std::_Exit(delivered > 0 ? 0 : 3);
}

TEST_F(StoreChunkReader, damaged_metadata_never_crashes) {
  write({.path = "images", .shape = {40, 6}, .chunk = {4, 3}, .filters = kGzip});
  EXPECT_EXIT(read_damaged(path(), test::file_bytes(path())), testing::ExitedWithCode(0), testing::Eq(""));
}

}  // namespace
}  // namespace h5feed::test
