// SPDX-License-Identifier: Apache-2.0
// Lists of sources of virtual datasets that libhdf5 must not be given: most end the test program where they
// are not refused.
#include "store/checks/virtual_mapping.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/error.hpp"
#include "store/format/byte_order.hpp"
#include "store/hdf5/h5_file.hpp"
#include "support/captured_log.hpp"
#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/virtual_files.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A file with one virtual dataset of 8×3 numbers, whose list of sources tests damage.
class VirtualMapping : public testing::Test {
 protected:
  VirtualMapping() {
    files_.source("a.h5", {4, 3});
    files_.source("b.h5", {8, 3});
    write();
  }

  // The rows of one source from 0 on, and every second row of the other from 4 on.
  void write() {
    files_.make("v.h5", {8, 3},
                {{"a.h5", "x", {4, 3}, {run(0, 4), run(0, 3)}, {}},
                 {"b.h5", "x", {8, 3}, {run(4, 4), run(0, 3)}, {{0, 2, 4, 1}, run(0, 3)}}});
    bytes_ = file_bytes(path());
  }

  std::filesystem::path path() const { return files_.folder() / "v.h5"; }

  std::size_t heap() const {
    constexpr std::string_view kHeap = "GCOL";
    const auto found = std::search(bytes_.begin(), bytes_.end(), kHeap.begin(), kHeap.end(),
                                   [](std::byte a, char b) { return std::to_integer<char>(a) == b; });
    return static_cast<std::size_t>(found - bytes_.begin());
  }
  // The only object of the heap.
  std::size_t object() const { return heap() + 16; }
  std::size_t list() const { return object() + 16; }
  std::size_t list_bytes() const { return static_cast<std::size_t>(number(object() + 8, 8)); }
  // What follows the list: free space.
  std::size_t rest() const { return list() + (list_bytes() + 7) / 8 * 8; }

  std::uint64_t number(std::size_t at, std::size_t bytes) const {
    return little_endian(std::span(bytes_).subspan(at, bytes));
  }

  // Puts a number into a copy of the file, with the right checksum of the list.
  template <typename Number>
  void put(std::size_t at, Number changed) const {
    std::vector<std::byte> bytes = bytes_;
    put_little_endian(bytes, at, changed);
    const std::size_t end = list() + list_bytes() - 4;
    put_little_endian(bytes, end, metadata_checksum(std::span(bytes).subspan(list(), end - list())));
    replace_file(path(), bytes);
  }

  std::string refusal() const {
    return refusal_in<FileError>(files_.folder(), [this] { H5File::open(path())->describe("x"); });
  }

  // Reads all samples; the error, or nothing.
  std::string read() const {
    const CapturedLog quiet;
    try {
      const Dataset dataset =
          Dataset::open({.files = {path()}, .data = "x", .input_layout = InputLayout::none});
      DataLoader loader(dataset, {.batch_size = 4});
      while (loader.next()) {
      }
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  }

  VirtualFiles files_;
  std::vector<std::byte> bytes_;
};

// Places in the list: version, number of sources, then for each its file, its dataset and two selections, of
// which the first is one of all elements.
constexpr std::size_t kSources = 1;
constexpr std::size_t kFile = 9;
constexpr std::size_t kFirstSelection = kFile + 5 + 2;
constexpr std::size_t kSecondSelection = kFirstSelection + 16;

TEST_F(VirtualMapping, of_any_selections_is_accepted) {
  EXPECT_EQ(refusal(), "accepted");
  EXPECT_EQ(read(), "");
  // Blocks of different sizes, and all elements.
  files_.make_of("v.h5", {8, 3}, [](hid_t plist) {
    const Hid to = space_of({8, 3}, {run(0, 2), run(0, 3)});
    const std::vector<hsize_t> start = {5, 1}, count = {1, 2};
    require(H5Sselect_hyperslab(to.get(), H5S_SELECT_OR, start.data(), nullptr, count.data(), nullptr),
            "H5Sselect_hyperslab");
    VirtualFiles::add_source(plist, to, "a.h5", space_of({4, 2}, {}));
  });
  EXPECT_EQ(refusal(), "accepted");
  files_.make("v.h5", {4, 3}, {{"a.h5", "x", {4, 3}, {}, {}}});
  EXPECT_EQ(refusal(), "accepted");
  EXPECT_EQ(read(), "");
}

TEST_F(VirtualMapping, of_more_sources_than_its_list_has_is_refused) {
  for (const std::uint64_t sources : {3ULL, 1ULL << 40, ~0ULL}) {
    put(list() + kSources, sources);
    EXPECT_THAT(refusal(),
                AllOf(StartsWith("v.h5:/x: its sources, in the heap at byte " + std::to_string(heap())),
                      HasSubstr("go beyond the end of their list; restore the file from a good copy")));
  }
}

TEST_F(VirtualMapping, with_other_dimensions_than_the_dataset_is_refused) {
  const std::size_t rank = list() + kSecondSelection + 16;
  ASSERT_EQ(number(rank, 4), 2U);
  for (const std::uint32_t dimensions : {1U, 3U, 33U, 0x7fffffffU}) {
    put(rank, dimensions);
    EXPECT_THAT(refusal(), HasSubstr("select other dimensions than the dataset has")) << dimensions;
  }
}

TEST_F(VirtualMapping, with_blocks_that_end_before_they_begin_is_refused) {
  const std::size_t corners = list() + kSecondSelection + 16 + 4 + 4;
  ASSERT_EQ(number(corners + 8, 4), 3U) << "the last row";
  put(corners, std::uint32_t{4});
  EXPECT_THAT(refusal(), HasSubstr("select blocks that end before they begin"));
}

TEST_F(VirtualMapping, with_a_stride_of_0_or_blocks_that_overlap_is_refused) {
  // Selections without limit are stored with their distances.
  files_.make_of(
      "v.h5", {8, 3},
      [](hid_t plist) {
        const std::vector<hsize_t> shape = {8, 3}, most = {H5S_UNLIMITED, 3}, start = {0, 0}, stride = {2, 1};
        const std::vector<hsize_t> count = {H5S_UNLIMITED, 1}, block = {1, 3};
        const Hid space(H5Screate_simple(2, shape.data(), most.data()));
        require(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), stride.data(), count.data(),
                                    block.data()),
                "H5Sselect_hyperslab");
        VirtualFiles::add_source(plist, space, "a.h5", space);
      },
      H5T_STD_U16LE, {H5S_UNLIMITED, 3});
  bytes_ = file_bytes(path());
  EXPECT_EQ(refusal(), "accepted");
  // Version, flags, length and rank; start, then stride.
  const std::size_t stride = list() + kFirstSelection + 4 + 4 + 5 + 4 + 8;
  ASSERT_EQ(number(stride, 8), 2U);
  put(stride, std::uint64_t{0});
  EXPECT_THAT(refusal(), HasSubstr("select blocks that overlap"));
  ASSERT_EQ(number(stride + 16, 8), 1U) << "rows of a block";
  put(stride + 16, std::uint64_t{3});
  EXPECT_THAT(refusal(), HasSubstr("select blocks that overlap"));
}

TEST_F(VirtualMapping, in_a_damaged_heap_is_refused) {
  ASSERT_EQ(number(rest(), 2), 0U);
  put(rest() + 8, std::uint64_t{0});
  EXPECT_THAT(refusal(), HasSubstr("lie in a heap with free space of no size"));
  // From the last of these, libhdf5 1.10 would come back to the first object.
  for (const std::uint64_t size : {std::uint64_t{5000}, std::uint64_t{1} << 40, object() - rest()}) {
    put(rest() + 8, size);
    EXPECT_THAT(refusal(), HasSubstr("lie in a heap whose free space goes beyond its end")) << size;
  }
  put_little_endian(bytes_, rest(), std::uint16_t{7});  // An object instead of the free space
  put(rest() + 8, ~std::uint64_t{0});
  EXPECT_THAT(refusal(), HasSubstr("lie in a heap whose objects go beyond its end"));
}

TEST_F(VirtualMapping, that_its_heap_does_not_have_is_refused) {
  // The layout in the header: version, class, address of the heap, number of the object.
  std::vector<std::byte> layout = {std::byte{4}, std::byte{3}};
  layout.resize(10);
  put_little_endian(layout, 2, static_cast<std::uint64_t>(heap()));
  const auto found = std::search(bytes_.begin(), bytes_.end(), layout.begin(), layout.end());
  const auto at = static_cast<std::size_t>(found - bytes_.begin()) + layout.size();
  ASSERT_EQ(number(at, 4), 1U);
  for (const std::uint32_t object : {0U, 5U, 70'000U, 0x7fffffffU}) {
    put(at, object);
    EXPECT_THAT(refusal(), HasSubstr("are not there")) << object;
  }
}

TEST_F(VirtualMapping, of_selections_that_libhdf5_does_not_know_is_left_to_it) {
  const std::size_t version = list() + kSecondSelection + 4;
  ASSERT_EQ(number(version, 4), 1U);
  for (const std::uint32_t unknown : {0U, 9U}) {
    put(version, unknown);
    EXPECT_THAT(refusal(), AllOf(HasSubstr("libhdf5 cannot open it"), Not(HasSubstr("its sources"))))
        << unknown;
  }
}

// libhdf5 would read other bytes of the file of a contiguous source, and beyond the chunks of another.
TEST_F(VirtualMapping, of_irregular_selections_beyond_their_source_is_refused) {
  for (const Shape& chunk : {Shape(), Shape{2, 3}}) {
    files_.source("b.h5", {8, 3}, chunk);
    for (const auto& [last, error] : {std::pair(hsize_t{7}, ""), {8, "has 8 elements in dimension 0"}}) {
      files_.make_of("v.h5", {3, 3}, [end = last](hid_t plist) {
        const Hid from = space_of({10, 3}, {run(0, 1), run(0, 3)});
        for (const hsize_t row : {hsize_t{3}, end}) {
          const std::vector<hsize_t> start = {row, 0}, count = {1, 3};
          require(
              H5Sselect_hyperslab(from.get(), H5S_SELECT_OR, start.data(), nullptr, count.data(), nullptr),
              "H5Sselect_hyperslab");
        }
        VirtualFiles::add_source(plist, space_of({3, 3}, {}), "b.h5", from);
      });
      EXPECT_THAT(read(), HasSubstr(error));
      EXPECT_EQ(read().empty(), last < 8);
    }
  }
}

TEST_F(VirtualMapping, with_any_byte_changed_is_read_or_refused) {
  int refused = 0;
  for (std::size_t at = heap(); at < list() + list_bytes() - 4; ++at) {
    for (const unsigned change : {0x01U, 0x80U, 0xffU}) {
      SCOPED_TRACE("byte " + std::to_string(at - heap()) + " ^ " + std::to_string(change));
      put(at, static_cast<std::uint8_t>(std::to_integer<unsigned>(bytes_[at]) ^ change));
      refused += read().empty() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace h5feed::test
