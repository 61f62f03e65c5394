// SPDX-License-Identifier: Apache-2.0
// Encoded images where h5feed was built without OpenCV.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "h5feed/data_loader.hpp"
#include "images/image_library.hpp"
#include "support/files/image_bytes.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;

TEST(NoCodecs, are_named_as_the_reason_when_an_encoded_image_is_opened) {
  const TempDir dir;
  write_ragged(H5TestFile(dir / "x.h5"), "encoded", {cmyk_jpeg(), cmyk_jpeg()});
  EXPECT_THAT(
      refusal_in<Error>(dir.path(), [&] { Dataset::open({.files = {dir / "x.h5"}, .data = "encoded"}); }),
      HasSubstr("this h5feed was built without OpenCV: build it with H5FEED_WITH_OPENCV=ON, or set "
                "H5FEED_IMAGES to its path"));
}

TEST(NoCodecs, are_not_needed_for_raw_pixels_of_one_size) {
  const TempDir dir;
  const std::vector<std::int32_t> shapes = {3, 1, 2, 3, 1, 2};
  {
    H5TestFile file(dir / "x.h5");
    write_ragged(file, "raw", {Bytes(6, std::byte{7}), Bytes(6, std::byte{9})});
    file.create({.path = "shapes", .file_type = H5T_STD_I32LE, .shape = {2, 3}});
    file.write("shapes", std::as_bytes(std::span(shapes)));
  }
  DataLoader loader(Dataset::open({.files = {dir / "x.h5"}, .data = "raw", .images = {.shapes = "shapes"}}),
                    {.batch_size = 2});
  const auto batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->data.as<std::uint8_t>()[6], 9);
}

}  // namespace
}  // namespace h5feed::test
