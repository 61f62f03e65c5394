// SPDX-License-Identifier: Apache-2.0
// Layouts whose chunks libhdf5 1.10 would divide by, or write beyond.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "store/format/byte_order.hpp"
#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/structure_file.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

using StoreChunkLayout = StoreStructure;

// libhdf5 1.10 makes its buffers of a chunk as large as the layout says, and copies as much as the datatype
// says.
TEST_F(StoreChunkLayout, refuses_chunks_whose_elements_are_smaller_than_those_of_the_datatype) {
  {
    H5TestFile file(path());
    file.create({.path = "images", .file_type = H5T_STD_U16LE, .shape = {12, 6}, .chunk = {4, 6}});
  }
  EXPECT_EQ(describe_message(), "accepted");
  // Version, class, dimensions, address of the index, extents of 4 bytes.
  put<std::uint32_t>(layout_of_images() + 8 + 3 + 8 + 2 * 4, 1);
  EXPECT_THAT(describe_message(),
              HasSubstr("its chunks have elements of 1 bytes, and its datatype of 2; restore"));
}

// libhdf5 1.10 divides by the extents when it opens a dataset whose layout is of version 1 or 2.
TEST_F(StoreChunkLayout, refuses_chunks_of_which_an_extent_is_zero) {
  for (const unsigned version : {1U, 2U}) {
    {
      H5TestFile file(path());
      file.create({.path = "images", .shape = {12}, .chunk = {4}});
    }
    const std::uint64_t contents = layout_of_images() + 8;
    // Of version 3: version, class, dimensions, address, extents. Of the older ones: version, dimensions,
    // class, five reserved bytes, address, extents.
    const std::vector<std::byte> bytes = file_bytes(path());
    const std::uint64_t address = little_endian(std::span(bytes).subspan(contents + 3, 8));
    const std::uint64_t extents = contents + 16;
    put<std::uint64_t>(contents, version | 2U << 8U | 2U << 16U);
    put<std::uint64_t>(contents + 8, address);
    put<std::uint64_t>(extents, 4 | std::uint64_t{1} << 32U);
    EXPECT_EQ(describe_message(), "accepted") << version;
    put<std::uint32_t>(extents, 0);
    EXPECT_THAT(open_message(), HasSubstr("describes chunks of which an extent is 0; restore")) << version;
  }
}

}  // namespace
}  // namespace h5feed::test
