// SPDX-License-Identifier: Apache-2.0
// Encoded images (JPEG, PNG) as samples, and pixels with a table of their shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <opencv2/core/utility.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <string>
#include <utility>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/error.hpp"
#include "support/files/image_bytes.hpp"
#include "support/files/image_file.hpp"
#include "support/loaders/loaded_rows.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(Images, in_jpeg_are_decoded_from_any_storage) {
  std::vector<Bytes> jpegs;
  Bytes expected;
  for (unsigned i = 0; i < 23; ++i) {
    jpegs.push_back(encoded(picture(24, 30, 3, i), ".jpg"));
    const Bytes pixels = planes(decoded(jpegs.back()));
    expected.insert(expected.end(), pixels.begin(), pixels.end());
  }
  // libhdf5 takes no filters for such data.
  for (const test::RaggedStorage& storage : {test::RaggedStorage{}, {.chunk = 4}}) {
    for (const test::TestFileOptions& options :
         {test::TestFileOptions{}, {.latest = true}, {.latest = false, .user_block = 512}}) {
      write(jpegs, storage, options);
      const Dataset dataset = open();
      EXPECT_TRUE(DatasetAccess::state(dataset)->data.reader->direct());
      EXPECT_THAT(dataset.sample_shape(), ElementsAre(3, 24, 30));
      EXPECT_EQ(first_difference(dataset, expected), "");
    }
  }
}

TEST_F(Images, smaller_than_a_page_share_their_heap) {
  std::vector<Bytes> pngs;
  Bytes expected;
  for (unsigned i = 0; i < 300; ++i) {
    const cv::Mat image = picture(3, 4, 3, i);
    pngs.push_back(encoded(image, ".png"));
    const Bytes pixels = planes(image);
    expected.insert(expected.end(), pixels.begin(), pixels.end());
  }
  write(pngs);
  EXPECT_EQ(first_difference(open(), expected), "");
}

TEST_F(Images, of_many_files_are_one_dataset) {
  Bytes expected;
  for (unsigned file_number = 0; file_number < 3; ++file_number) {
    std::vector<Bytes> jpegs;
    for (unsigned i = 0; i < 5; ++i) {
      jpegs.push_back(encoded(picture(24, 30, 3, 10 * file_number + i), ".jpg"));
      const Bytes pixels = planes(decoded(jpegs.back()));
      expected.insert(expected.end(), pixels.begin(), pixels.end());
    }
    const H5TestFile file(dir_ / (std::to_string(file_number) + ".h5"));
    write_ragged(file, "encoded", jpegs);
  }
  EXPECT_EQ(first_difference(Dataset::open({.files = {dir_ / "*.h5"}, .data = "encoded"}), expected), "");
}

TEST_F(Images, are_scaled_where_their_sizes_differ) {
  const std::vector<cv::Size> sizes = {{40, 60}, {8, 9}, {20, 15}, {100, 7}};
  std::vector<Bytes> pngs;
  Bytes expected;
  for (const cv::Size& size : sizes) {
    const cv::Mat image = picture(size.height, size.width, 3, 1);
    pngs.push_back(encoded(image, ".png"));
    cv::Mat scaled;
    const bool shrinks = size.height >= 15 && size.width >= 20;
    cv::resize(image, scaled, {20, 15}, 0, 0, shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
    const Bytes pixels = planes(scaled);
    expected.insert(expected.end(), pixels.begin(), pixels.end());
  }
  write(pngs);
  const Dataset dataset = open({.height = 15, .width = 20});
  EXPECT_THAT(dataset.sample_shape(), ElementsAre(3, 15, 20));
  EXPECT_EQ(first_difference(dataset, expected), "");
}

TEST_F(Images, leave_opencvs_settings_alone) {
  const int threads = cv::getNumThreads();
  write({encoded(picture(30, 30, 3, 1), ".jpg")});
  test::load_rows(open({.height = 10, .width = 10}), {.num_workers = 2});
  EXPECT_EQ(cv::getNumThreads(), threads);
}

const std::string kNoImage =
    "it is no JPEG, PNG, WebP, BMP, TIFF, JPEG 2000, PBM, PGM or PPM, or OpenCV cannot decode it; store it "
    "as JPEG or PNG, or leave it out";

std::string damaged_image(const std::string& pixels) {
  return "its header says " + pixels +
         " pixels, but OpenCV cannot decode them: it is damaged or cut short, or of a rare kind; restore it, "
         "store it as JPEG or PNG, or leave it out";
}

TEST_F(Images, that_do_not_decode_are_named) {
  const Bytes good = encoded(picture(24, 30, 3, 1), ".png");
  const Bytes text = {std::byte{'n'}, std::byte{'o'}};
  write({good, good, text});
  EXPECT_EQ(refusal(), "x.h5:/encoded: sample 2 does not decode: " + kNoImage);
  write({good, Bytes(good.begin(), good.begin() + 60)});
  EXPECT_EQ(refusal(), "x.h5:/encoded: sample 1 does not decode: " + damaged_image("24×30"));
  write({good, {}});
  EXPECT_EQ(refusal(),
            "x.h5:/encoded: sample 1 does not decode: it has no bytes; restore it, or leave it out");
  write({text, good});
  EXPECT_EQ(refusal({}, false), "x.h5:/encoded: sample 0 does not decode: " + kNoImage);
  write({good, encoded(picture(24, 31, 3, 1), ".png")});
  EXPECT_EQ(refusal(),
            "x.h5:/encoded: sample 1 does not decode: it is 24×31×3 u8, but the first image is "
            "24×30×3 u8; set images.height and images.width to scale all images to one size");
  write({good, encoded(picture(24, 30, 1, 1), ".png")});
  EXPECT_EQ(refusal({.color = ImageColor::unchanged}),
            "x.h5:/encoded: sample 1 does not decode: it is 24×30×1 u8, but the first image is "
            "24×30×3 u8; set images.color so that all images have the same channels");
  write({});
  EXPECT_THAT(refusal(), HasSubstr("holds no samples"));
}

TEST_F(Images, of_other_formats_are_not_given_to_opencv) {
  // DICOM has its mark at byte 128; the second begins like a stream of WebP.
  Bytes dicom(140);
  std::memcpy(dicom.data() + 128, "DICM", 4);
  Bytes webp_and_dicom = dicom;
  webp_and_dicom[0] = std::byte{0x2f};
  for (const auto& [image, problem] : {std::pair(dicom, kNoImage),
                                       {webp_and_dicom, damaged_image("1×1")},
                                       {encoded(picture(8, 8, 3, 1), ".ras"), kNoImage}}) {
    write({image});
    EXPECT_EQ(refusal({}, false), "x.h5:/encoded: sample 0 does not decode: " + problem);
  }
}

// OpenCV fills the rest with gray and says nothing.
TEST_F(Images, that_were_cut_short_are_named_and_not_filled_with_gray) {
  const Bytes good = encoded(picture(24, 30, 3, 1), ".jpg");
  const auto cut = [](const Bytes& image, std::size_t bytes) {
    return Bytes(image.begin(), image.end() - static_cast<std::ptrdiff_t>(bytes));
  };
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{2}, std::size_t{40}, good.size() / 2}) {
    write({good, cut(good, bytes)});
    EXPECT_EQ(refusal(),
              "x.h5:/encoded: sample 1 does not decode: its JPEG is cut short; restore it, or leave it out")
        << bytes;
    std::filesystem::remove(path());
  }
  // A thumbnail in the header has an end of its own.
  const Bytes small = encoded(picture(8, 8, 3, 2), ".jpg");
  const std::size_t length = small.size() + 2;
  Bytes with_thumbnail = {good[0],
                          good[1],
                          std::byte{0xFF},
                          std::byte{0xEF},
                          static_cast<std::byte>(length >> 8),
                          static_cast<std::byte>(length & 0xFF)};
  with_thumbnail.insert(with_thumbnail.end(), small.begin(), small.end());
  with_thumbnail.insert(with_thumbnail.end(), good.begin() + 2, good.end());
  Bytes with_more = good;
  with_more.insert(with_more.end(), 100, std::byte{0});
  write({good, with_thumbnail, with_more});
  const test::LoadedRows rows = test::load_rows(open(), {.batch_size = 4});
  EXPECT_EQ(rows.data.at(1), rows.data.at(0));
  EXPECT_EQ(rows.data.at(2), rows.data.at(0));
  std::filesystem::remove(path());
  write({good, cut(with_thumbnail, 5)});
  EXPECT_THAT(refusal(), HasSubstr("sample 1 does not decode: its JPEG is cut short"));
  std::filesystem::remove(path());
  write({encoded(picture(24, 30, 3, 1), ".png"), cut(encoded(picture(24, 30, 3, 1), ".png"), 200)});
  EXPECT_THAT(refusal(), HasSubstr("sample 1 does not decode"));
}

TEST_F(Images, that_fail_do_not_end_the_epoch) {
  const Bytes good = encoded(picture(24, 30, 3, 1), ".png");
  write({good, {std::byte{1}}, good, good});
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(open(), {.num_workers = workers});
    int delivered = 0;
    int failed = 0;
    for (int i = 0; i < 4; ++i) {
      try {
        delivered += loader.next().has_value() ? 1 : 0;
      } catch (const ChunkError& error) {
        EXPECT_THAT(error.what(), HasSubstr("sample 1 does not decode"));
        ++failed;
      }
    }
    EXPECT_EQ(delivered, 3);
    EXPECT_EQ(failed, 1);
  }
}

TEST_F(Images, have_sizes_that_can_be) {
  write({encoded(picture(24, 30, 3, 1), ".png")});
  EXPECT_THAT(refusal({.height = 10}),
              StartsWith("images.height and images.width must be 1 to 32767, or both 0"));
  EXPECT_THAT(refusal({.height = -1, .width = -1}), HasSubstr("got -1 and -1"));
  EXPECT_THAT(refusal({.shapes = "none"}), HasSubstr("no dataset \"none\""));
}

TEST_F(Images, as_pixels_are_told_by_their_table_of_shapes) {
  // As fuel stores dogs_vs_cats: (C,H,W), of any size.
  const std::vector<cv::Size> sizes = {{12, 7}, {6, 5}, {30, 20}};
  std::vector<Bytes> planar;
  std::vector<Bytes> interleaved;
  std::vector<std::int32_t> planar_shapes;
  std::vector<std::int32_t> interleaved_shapes;
  Bytes expected;
  for (const cv::Size& size : sizes) {
    const cv::Mat image = picture(size.height, size.width, 3, 5);
    planar.push_back(planes(image));
    cv::Mat rgb;
    cv::cvtColor(image, rgb, cv::COLOR_BGR2RGB);
    const auto* const begin = reinterpret_cast<const std::byte*>(rgb.data);
    interleaved.emplace_back(begin, begin + rgb.total() * 3);
    planar_shapes.insert(planar_shapes.end(), {3, size.height, size.width});
    interleaved_shapes.insert(interleaved_shapes.end(), {size.height, size.width, 3});
    cv::Mat scaled;
    const bool shrinks = size.height >= 6 && size.width >= 8;
    cv::resize(rgb, scaled, {8, 6}, 0, 0, shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
    const Bytes pixels = planes(scaled, false);
    expected.insert(expected.end(), pixels.begin(), pixels.end());
  }
  {
    H5TestFile file(path());
    write_ragged(file, "encoded", planar);
    file.create({.path = "shapes", .file_type = H5T_STD_I32LE, .shape = {3, 3}});
    file.write("shapes", std::as_bytes(std::span(planar_shapes)));
    write_ragged(file, "hwc", interleaved);
    file.create({.path = "hwc_shapes", .file_type = H5T_STD_I32BE, .shape = {3, 3}});
    file.write("hwc_shapes", std::as_bytes(std::span(interleaved_shapes)));
    file.create({.path = "few", .file_type = H5T_STD_I32LE, .shape = {2, 3}});
    file.create({.path = "wrong", .file_type = H5T_STD_I32LE, .shape = {3, 3}});
  }
  EXPECT_EQ(first_difference(open({.height = 6, .width = 8, .shapes = "shapes"}), expected), "");
  EXPECT_EQ(first_difference(Dataset::open({.files = {path()},
                                            .data = "hwc",
                                            .input_layout = InputLayout::nhwc,
                                            .images = {.height = 6, .width = 8, .shapes = "hwc_shapes"}}),
                             expected),
            "");
  EXPECT_EQ(refusal({.height = 6, .width = 8, .shapes = "few"}),
            "x.h5:/few is 2×3 i32; a table of shapes is 3×3 integers");
  EXPECT_THAT(refusal({.height = 6, .width = 8, .shapes = "wrong"}),
              HasSubstr("whose channel axis is ambiguous"));
}

}  // namespace
}  // namespace h5feed::test
