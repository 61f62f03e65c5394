// SPDX-License-Identifier: Apache-2.0
// Datasets whose shape contradicts their largest shape or the index of their chunks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "store/checks/structure_check.hpp"
#include "store/format/metadata_checksum.hpp"
#include "support/files/structure_file.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

class StoreExtents : public StoreStructure {
 protected:
  void write_images(const TestDataset& dataset) const {
    H5TestFile file(path(), {.latest = true});
    file.create(dataset);
    std::size_t bytes = 1;
    for (const std::uint64_t extent : dataset.shape) bytes *= extent;
    file.write("images", patterned_bytes(bytes));
  }

  // Replaces the shape and the largest shape of /images.
  void replace_shapes(const std::vector<std::uint64_t>& from, const std::vector<std::uint64_t>& to) const {
    replace_in_header(stored(from), stored(to));
  }

  // Replaces bytes of the header of /images, and makes its checksum right.
  void replace_in_header(const std::vector<std::uint8_t>& from, const std::vector<std::uint8_t>& to) const {
    const std::uint64_t header = header_address(path(), "images");
    replace_bytes(path(), from, to);
    std::vector<std::byte> bytes = file_bytes(path());
    // Signature, version, flags, four times, size of the messages in one or two bytes.
    const auto flags = std::to_integer<unsigned>(bytes.at(header + 5));
    const std::uint64_t size_at = header + 6 + ((flags & 0x20U) != 0 ? 16 : 0);
    const std::size_t width = std::size_t{1} << (flags & 3U);
    const std::uint64_t end = size_at + width + little_endian(std::span(bytes).subspan(size_at, width));
    put<std::uint32_t>(end, metadata_checksum(std::span(bytes).subspan(header, end - header)));
  }

 private:
  static std::vector<std::uint8_t> stored(const std::vector<std::uint64_t>& numbers) {
    std::vector<std::uint8_t> bytes(8 * numbers.size());
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return bytes;
  }
};

// libhdf5 returns the one chunk for each of them.
TEST_F(StoreExtents, refuses_several_chunks_with_an_index_of_a_single_one) {
  write_images({.path = "images", .shape = {4, 2}, .max_shape = {4, 2}, .chunk = {4, 2}});
  EXPECT_EQ(describe_message(), "accepted");
  replace_shapes({4, 2, 4, 2}, {8, 2, 8, 2});
  EXPECT_EQ(describe_message(),
            "train.h5:/images: the index of its chunks is one for a single chunk, for 2 chunks of the "
            "dataset; restore the file from a good copy");
}

TEST_F(StoreExtents, accepts_a_single_chunk_that_the_shape_does_not_fill) {
  write_images({.path = "images", .shape = {4, 2}, .max_shape = {4, 2}, .chunk = {4, 2}});
  replace_shapes({4, 2, 4, 2}, {3, 1, 4, 2});
  EXPECT_EQ(describe_message(), "accepted");
}

TEST_F(StoreExtents, refuses_chunks_without_an_index_beyond_the_file) {
  write_images(
      {.path = "images", .shape = {12, 6}, .max_shape = {12, 6}, .chunk = {4, 6}, .early_allocation = true});
  EXPECT_EQ(describe_message(), "accepted");
  replace_shapes({12, 6, 12, 6}, {12, 6, 1200, 6});
  EXPECT_THAT(describe_message(), HasSubstr("its 300 chunks of 24 bytes from byte "));
  EXPECT_THAT(describe_message(), HasSubstr(" on go beyond the end of the file; restore"));
}

// libhdf5 1.10 accepts elements of no bytes, and would visit all chunks that the index claims.
TEST_F(StoreExtents, refuses_chunks_with_elements_of_no_bytes) {
  write_images({.path = "images", .shape = {12, 6}, .max_shape = {kUnlimited, 6}, .chunk = {4, 6}});
  EXPECT_EQ(describe_message(), "accepted");
  // Version, kind, flags, number and width of the extents; the extents of a chunk, the bytes of an element.
  replace_in_header({4, 2, 0, 3, 1, 4, 6, 1}, {4, 2, 0, 3, 1, 4, 6, 0});
  EXPECT_EQ(
      describe_message(),
      "train.h5:/images: one of the extents of its chunks, or the size of an element, is 0; restore the "
      "file from a good copy");
}

TEST_F(StoreExtents, refuses_a_shape_larger_than_its_largest) {
  write_images({.path = "images", .shape = {4, 2}, .max_shape = {kUnlimited, 2}, .chunk = {1, 1}});
  EXPECT_EQ(describe_message(), "accepted");
  replace_shapes({4, 2, kUnlimited, 2}, {4, 20, kUnlimited, 2});
  EXPECT_EQ(describe_message(),
            "train.h5:/images: its shape has 20 elements in dimension 1, its largest shape 2; restore the "
            "file from a good copy");
}

// libhdf5 reads nothing behind that end. A writer that has the file open may not have told it yet.
TEST_F(StoreExtents, refuses_values_behind_the_end_of_the_file_that_the_superblock_tells) {
  write_images({.path = "images", .shape = {12, 6}});
  const std::uint64_t header = header_address(path(), "images");
  EXPECT_EQ(chunk_tree_damage(*open_file_source(path()), header), "");
  constexpr std::uint64_t kFlagsAt = 11, kEndAt = 28;
  put<std::uint64_t>(kEndAt, 100);
  EXPECT_EQ(chunk_tree_damage(*open_file_source(path()), header), "its values go beyond the end of its file");
  put<std::uint8_t>(kFlagsAt, 1);
  EXPECT_EQ(chunk_tree_damage(*open_file_source(path()), header), "");
}

}  // namespace
}  // namespace h5feed::test
