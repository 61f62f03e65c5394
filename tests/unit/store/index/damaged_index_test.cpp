// SPDX-License-Identifier: Apache-2.0
// Chunk indexes that contradict themselves or their dataset.
#include "store/index/chunk_index.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "h5feed/error.hpp"
#include "support/files/chunk_reader_file.hpp"
#include "support/files/damage.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class StoreIndex : public StoreChunkReader {};

TEST_F(StoreIndex, refuses_an_index_that_names_a_chunk_outside_the_dataset) {
  for (const bool filtered : {false, true}) {
    SCOPED_TRACE(filtered);
    write({.path = "images",
           .shape = {12, 6},
           .chunk = {4, 6},
           .filters = filtered ? kGzip : std::vector<FilterSpec>()});
    move_chunk(path(), 2, 2, 400);
    EXPECT_EQ(open_message(),
              "train.h5:/images: chunk (2,0) (samples 8-11) is missing in its index, which lists a chunk out "
              "of place, at element (400,0); restore the file from a good copy, or, if an old "
              "library has shrunk the dataset, rewrite it with h5repack");
  }
}

TEST_F(StoreIndex, refuses_a_newer_tree_that_names_a_chunk_outside_the_dataset) {
  {
    H5TestFile file(path(), {.latest = true});
    constexpr std::uint64_t kAny = ~std::uint64_t{0};
    file.create({.path = "images", .shape = {12, 6}, .max_shape = {kAny, kAny}, .chunk = {4, 6}});
    file.write("images", patterned_bytes(72));
  }
  ASSERT_EQ(H5File::open(path())->describe("images").index_kind, "B-tree v2");
  EXPECT_NO_THROW(open("images"));
  move_chunk_of_new_index(path(), 2, 3, 2, 100);
  EXPECT_THAT(
      open_message(),
      StartsWith("train.h5:/images: chunk (2,0) (samples 8-11) is missing in its index, which lists a "
                 "chunk out of place"));
}

TEST_F(StoreIndex, refuses_an_index_whose_entries_are_out_of_order) {
  write({.path = "images", .shape = {12, 6}, .chunk = {4, 6}});
  move_chunk(path(), 2, 1, 0);
  EXPECT_THAT(
      open_message(),
      StartsWith("train.h5:/images: chunk (1,0) (samples 4-7) is missing in its index, which lists "));
}

TEST_F(StoreIndex, refuses_an_index_of_which_two_chunks_share_bytes) {
  for (const bool filtered : {false, true}) {
    SCOPED_TRACE(filtered);
    const auto addresses = [&] {
      write({.path = "images",
             .shape = {12, 6},
             .chunk = {4, 6},
             .filters = filtered ? kGzip : std::vector<FilterSpec>()});
      const auto file = H5File::open(path());
      std::vector<std::uint64_t> result;
      for (const ChunkLocation& place : build_chunk_index(*file, file->describe("images")).locations)
        result.push_back(place.address);
      return result;
    };
    const std::uint64_t first = addresses().at(0);
    const auto refused = [](std::uint64_t address) {
      return "train.h5:/images: chunk (0,0) (samples 0-3) and chunk (2,0) share bytes of the file from "
             "byte " +
             std::to_string(address) + " on, so that one of them is lost; restore the file from a good copy";
    };
    set_chunk_address(path(), 2, 2, first);
    EXPECT_EQ(open_message(), refused(first));
    set_chunk_address(path(), 2, 2, first + 1);
    EXPECT_EQ(open_message(), refused(first + 1));
  }
}

TEST_F(StoreIndex, reads_chunks_that_lie_in_the_file_in_any_order) {
  const Bytes values = patterned_bytes(12 * 6);
  {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {12, 6}, .chunk = {4, 6}});
    for (const std::uint64_t row : {8U, 0U, 4U}) {
      const std::vector<std::uint64_t> start = {row, 0}, count = {4, 6};
      file.write_box("images", start, count, std::span(values).subspan(row * 6, 24));
    }
  }
  const auto reader = open();
  EXPECT_TRUE(reader->direct());
  for (std::uint64_t chunk = 0; chunk < 3; ++chunk) {
    Bytes out(24);
    ReadScratch scratch;
    reader->read_chunk(chunk, out, scratch);
    EXPECT_TRUE(std::equal(out.begin(), out.end(), values.begin() + static_cast<std::ptrdiff_t>(chunk * 24)));
  }
}

// More chunks than are listed: the entries of the index are looked at all the same.
TEST_F(StoreIndex, refuses_a_damaged_index_of_a_dataset_with_more_chunks_than_can_be_listed) {
  constexpr std::uint64_t kRows = std::uint64_t{1} << 40;
  const auto write_sparse = [&] {
    H5TestFile file(path());
    file.create({.path = "images", .shape = {kRows, 2}, .chunk = {1, 2}});
    for (const std::uint64_t row : {3U, 70U, 5000U}) {
      const std::vector<std::uint64_t> start = {row, 0};
      const std::vector<std::uint64_t> count = {1, 2};
      file.write_box("images", start, count, patterned_bytes(2, 9));
    }
  };
  write_sparse();
  EXPECT_EQ(open_message(), "accepted");
  move_chunk(path(), 2, 2, kRows);
  EXPECT_EQ(
      open_message(),
      "train.h5:/images: its chunk index lists a chunk out of place, at element "
      "(1099511627776,0); restore the file from a good copy, or, if an old library has shrunk the dataset, "
      "rewrite it with h5repack");
  write_sparse();
  move_chunk(path(), 2, 1, 2);
  EXPECT_THAT(open_message(), HasSubstr("at element (2,0)")) << "out of order";
}

}  // namespace
}  // namespace h5feed::test
