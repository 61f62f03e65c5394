// SPDX-License-Identifier: Apache-2.0
// Damaged objects behind those that opening a file examines, the first 1,024.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "h5feed/error.hpp"
#include "store/format/byte_order.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/hdf5/path_pattern.hpp"
#include "support/files/damage.hpp"
#include "support/files/filter_decoding.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/structure_file.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using StoreFarObjects = StoreStructure;

TEST_F(StoreFarObjects, of_a_damaged_header_are_refused_when_they_are_described) {
  constexpr int kOthers = 1100;
  {
    H5TestFile file(path());
    for (int i = 0; i < kOthers; ++i) file.create({.path = "a/" + std::to_string(i), .shape = {1}});
    file.create({.path = "z/images", .shape = {12, 6}, .chunk = {4, 6}, .filters = {gzip_filter(4)}});
  }
  const std::uint64_t name = find(std::string_view("deflate\0", 8));
  put<char>(name + 7, 'd');
  EXPECT_EQ(open_message(), "accepted");
  const std::string refused =
      refusal_in<FileError>(dir_.path(), [this] { H5File::open(path())->describe("z/images"); });
  EXPECT_THAT(refused, StartsWith("train.h5:/z/images: the object header at byte "));
  EXPECT_THAT(refused, HasSubstr("describes a list of filters that goes beyond its message; restore"));
  {
    const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    ASSERT_GE(H5Lcreate_soft("/z/images", file.get(), "a/link", H5P_DEFAULT, H5P_DEFAULT), 0);
  }
  EXPECT_THAT(refusal_in<FileError>(dir_.path(), [this] { H5File::open(path())->describe("a/link"); }),
              HasSubstr("describes a list of filters that goes beyond its message; restore"));
}

// What is listed beside it stays readable.
TEST_F(StoreFarObjects, that_are_damaged_groups_are_listed_and_not_given_to_libhdf5) {
  constexpr std::size_t kOthers = 1100;
  {
    H5TestFile file(path());
    for (std::size_t i = 0; i < kOthers; ++i) file.create({.path = "a/" + std::to_string(i), .shape = {1}});
    file.create({.path = "a/z/images", .shape = {12, 6}});
  }
  // Its first message names the tree behind 8 bytes of its own.
  const std::vector<std::byte> bytes = file_bytes(path());
  const std::uint64_t tree = little_endian(std::span(bytes).subspan(header_address(path(), "a/z") + 24, 8));
  make_parent(tree, kGroupKey, tree);
  EXPECT_EQ(open_message(), "accepted");
  const std::string problem = "train.h5:/a/z: the B-tree at byte " + std::to_string(tree) + " has a node";

  const auto file = H5File::open(path());
  const std::vector<DatasetEntry> entries = file->list_datasets();
  ASSERT_EQ(entries.size(), kOthers + 1);
  EXPECT_EQ(entries.back().path, "/a/z");
  EXPECT_THAT(entries.back().problem, HasSubstr(problem));
  EXPECT_TRUE(entries.back().hides_others);
  EXPECT_EQ(entries.front().problem, "");
  EXPECT_THAT(file->list_one("a/z/images").problem, HasSubstr(problem));
  EXPECT_THAT(refusal_in<FileError>(dir_.path(), [&] { file->describe("a/z/images"); }), StartsWith(problem));
  EXPECT_THAT(refusal_in<FileError>(dir_.path(), [&] { file->end_of("a/z/images"); }), StartsWith(problem));
  EXPECT_THAT(refusal_in<FileError>(dir_.path(), [&] { expand_path(*file, "a/z/im*", {}); }),
              StartsWith(problem));
}

}  // namespace
}  // namespace h5feed::test
