// SPDX-License-Identifier: Apache-2.0
// h5feed pack: folders and lists of images, .npy and CIFAR files, and what is wrong with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#ifdef H5FEED_TEST_IMAGES
#include <opencv2/imgcodecs.hpp>
#endif

#include "store/hdf5/h5_file.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<std::string> class_names(const std::filesystem::path& path, const std::string& dataset) {
  const Hid file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Hid attribute(H5Aopen_by_name(file.get(), dataset.c_str(), "class_names", H5P_DEFAULT, H5P_DEFAULT));
  const Hid space(H5Aget_space(attribute.get()));
  const Hid type(H5Aget_type(attribute.get()));
  std::vector<char*> texts(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get())));
  require(H5Aread(attribute.get(), type.get(), texts.data()), "H5Aread");
  std::vector<std::string> names(texts.begin(), texts.end());
  for (char* const text : texts) H5free_memory(text);
  return names;
}

std::vector<double> numbers(const std::filesystem::path& path, const std::string& dataset,
                            const std::string& name) {
  const Hid file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Hid attribute(H5Aopen_by_name(file.get(), dataset.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT));
  const Hid space(H5Aget_space(attribute.get()));
  std::vector<double> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get())));
  require(H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, values.data()), "H5Aread");
  return values;
}

std::vector<int> values(const TempDir& dir, const std::string& dataset) {
  std::vector<int> result;
  for (const std::byte byte : read_through_libhdf5(dir / "p.h5", dataset)) {
    result.push_back(std::to_integer<int>(byte));
  }
  return result;
}

#ifdef H5FEED_TEST_IMAGES
// A PNG keeps its pixels: `color` everywhere, in blue, green, red.
void write_image(const std::filesystem::path& path, int height, int width, const cv::Scalar& color) {
  std::filesystem::create_directories(path.parent_path());
  ASSERT_TRUE(cv::imwrite(path.string(), cv::Mat(height, width, CV_8UC3, color)));
}

void write_classes(const TempDir& dir) {
  write_image(dir / "photos/dog/b.png", 8, 8, {3, 2, 1});
  write_image(dir / "photos/cat/a.png", 8, 8, {30, 20, 10});
  write_image(dir / "photos/cat/deep/c.png", 4, 4, {60, 50, 40});
}

TEST(PackImages, stores_pixels_labels_and_class_names_of_folders) {
  const TempDir dir;
  write_classes(dir);
  const ProgramResult result =
      run_program(dir.path(), {"pack", "p.h5", "--images", "photos", "--size", "2x2", "--chunk", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "writing p.h5 from 3 images in 2 classes, each 2x2\n");
  EXPECT_EQ(H5File::open(dir / "p.h5")->describe("images").shape_text(), "3×3×2×2 u8");
  EXPECT_THAT(values(dir, "images"), ElementsAre(10, 10, 10, 10, 20, 20, 20, 20, 30, 30, 30, 30,  //
                                                 40, 40, 40, 40, 50, 50, 50, 50, 60, 60, 60, 60,  //
                                                 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3));
  EXPECT_THAT(values(dir, "labels"), ElementsAre(0, 0, 1));
  EXPECT_THAT(class_names(dir / "p.h5", "labels"), ElementsAre("cat", "dog"));
  EXPECT_THAT(numbers(dir / "p.h5", "images", "mean"), ElementsAre(17, 24, 31));
  EXPECT_THAT(numbers(dir / "p.h5", "images", "min"), ElementsAre(1, 2, 3));
}

TEST(PackImages, numbers_classes_alike_in_all_groups) {
  const TempDir dir;
  write_classes(dir);
  write_image(dir / "more/ant/x.png", 4, 4, {0, 0, 0});
  write_image(dir / "more/dog/y.png", 4, 4, {0, 0, 0});
  const ProgramResult result =
      run_program(dir.path(), {"pack", "p.h5", "--images", "train=photos", "--images", "test=more", "--size",
                               "4x4", "--layout", "NHWC"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(values(dir, "train/labels"), ElementsAre(1, 1, 2));
  EXPECT_THAT(values(dir, "test/labels"), ElementsAre(0, 2));
  EXPECT_EQ(H5File::open(dir / "p.h5")->describe("train/images").shape_text(), "3×4×4×3 u8");
  EXPECT_THAT(class_names(dir / "p.h5", "test/labels"), ElementsAre("ant", "cat", "dog"));
}

TEST(PackImages, says_one_of_each_in_the_singular) {
  const TempDir dir;
  write_image(dir / "photos/dog/b.png", 8, 8, {3, 2, 1});
  write_text(dir / "photos/dog/notes.txt", "x");
  const ProgramResult result =
      run_program(dir.path(), {"pack", "p.h5", "--images", "photos", "--size", "2x2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "writing p.h5 from 1 image in 1 class, each 2x2; 1 other file is no image\n");
}

TEST(PackImages, fits_images_as_asked) {
  const TempDir dir;
  cv::Mat wide(2, 6, CV_8UC1);
  for (int x = 0; x < 6; ++x) wide.col(x) = 10 * x + 10;
  std::filesystem::create_directories(dir / "photos/one");
  ASSERT_TRUE(cv::imwrite((dir / "photos/one/a.png").string(), wide));
  const auto pixels = [&](const std::string& fit, const std::string& size) {
    EXPECT_EQ(run_program(dir.path(), {"pack", "p.h5", "--images", "photos", "--size", size, "--fit", fit,
                                       "--color", "gray", "--force"})
                  .exit_code,
              0);
    return values(dir, "images");
  };
  EXPECT_THAT(pixels("crop", "2x2"), ElementsAre(30, 40, 30, 40));
  EXPECT_THAT(pixels("stretch", "1x3"), ElementsAre(15, 35, 55));
  EXPECT_THAT(pixels("pad", "3x3"), ElementsAre(0, 0, 0, 15, 35, 55, 0, 0, 0));
}

TEST(PackImages, keeps_the_bytes_of_files_where_asked_to) {
  const TempDir dir;
  write_classes(dir);
  const ProgramResult result =
      run_program(dir.path(), {"pack", "p.h5", "--images", "photos", "--store", "bytes"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Hid file(H5Fopen((dir / "p.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Hid dataset(H5Dopen2(file.get(), "images", H5P_DEFAULT));
  const Hid type(H5Tvlen_create(H5T_NATIVE_UINT8));
  std::vector<hvl_t> rows(3);
  require(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data()), "H5Dread");
  const std::vector<std::string> names = {"photos/cat/a.png", "photos/cat/deep/c.png", "photos/dog/b.png"};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto* const bytes = static_cast<const std::byte*>(rows[i].p);
    EXPECT_EQ(std::vector<std::byte>(bytes, bytes + rows[i].len), file_bytes(dir / names[i]));
    H5free_memory(rows[i].p);
  }
}

TEST(PackImages, ends_at_a_bad_image_or_lists_it_and_leaves_it_out) {
  const TempDir dir;
  write_classes(dir);
  write_text(dir / "photos/cat/b.jpg", "\xFF\xD8\xFF\xE0 and nothing more");
  write_text(dir / "photos/dog/empty.png", "");
  write_text(dir / "photos/dog/notes.txt", "not an image by its name");
  for (const std::string store : {"pixels", "bytes"}) {
    std::vector<std::string> arguments = {"pack", "p.h5", "--images", "photos", "--store", store};
    if (store == "pixels") arguments.insert(arguments.end(), {"--size", "2x2"});
    const ProgramResult failed = run_program(dir.path(), arguments);
    EXPECT_EQ(failed.exit_code, 1);
    EXPECT_THAT(failed.err,
                EndsWith("photos/cat/b.jpg is cut short: a JPEG without its end; repair or remove it, "
                         "or leave bad images out with --on-error skip\n"));
    // The images that tell how much space is needed are decoded before the work is announced.
    EXPECT_EQ(failed.err.starts_with("writing"), store == "bytes") << failed.err;
    EXPECT_FALSE(std::filesystem::exists(dir / "p.h5"));
    arguments.insert(arguments.end(), {"--on-error", "skip", "--json"});
    const ProgramResult skipped = run_program(dir.path(), arguments);
    ASSERT_EQ(skipped.exit_code, 0) << skipped.err;
    const auto json = nlohmann::json::parse(skipped.out);
    ASSERT_EQ(json["skipped"].size(), 2U);
    EXPECT_EQ(json["skipped"][1]["file"], "photos/dog/empty.png");
    EXPECT_EQ(json["skipped"][1]["reason"], "is empty");
    ASSERT_EQ(json["datasets"].size(), 2U);
    EXPECT_EQ(json["datasets"][0]["path"], "/images");
    EXPECT_EQ(json["datasets"][0]["shape"][0], 3);
    EXPECT_EQ(json["file_bytes"], std::filesystem::file_size(dir / "p.h5"));
    EXPECT_THAT(skipped.err, HasSubstr("; 1 other file is no image\n"
                                       "left out: photos/cat/b.jpg is cut short: a JPEG without its end\n"
                                       "left out: photos/dog/empty.png is empty\n"));
    EXPECT_THAT(values(dir, "labels"), ElementsAre(0, 0, 1));
    std::filesystem::remove(dir / "p.h5");
  }
}

TEST(PackImages, takes_paths_labels_and_groups_from_csv) {
  const TempDir dir;
  write_classes(dir);
  write_text(dir / "list.csv",
             "label,split,path\r\n\"big, dog\",train,photos/dog/b.png\r\ncat,test,\"photos/cat/a.png\"\r\n");
  ProgramResult result = run_program(dir.path(), {"pack", "p.h5", "--csv", "list.csv", "--size", "2x2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(class_names(dir / "p.h5", "train/labels"), ElementsAre("big, dog", "cat"));
  EXPECT_THAT(values(dir, "train/labels"), ElementsAre(0));
  EXPECT_THAT(values(dir, "test/labels"), ElementsAre(1));
  write_text(dir / "numbers.csv", "photos/dog/b.png,7\nphotos/cat/a.png,300\n");
  result = run_program(dir.path(), {"pack", "p.h5", "--csv", "numbers.csv", "--size", "2x2", "--force"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(H5File::open(dir / "p.h5")->describe("labels").shape_text(), "2 i64");
  write_text(dir / "bad.csv", "photos/dog/b.png\n");
  EXPECT_EQ(run_program(dir.path(), {"pack", "q.h5", "--csv", "bad.csv", "--size", "2x2"}).err,
            "bad.csv: line 1 has no path and label; give lines of path,label\n");
  write_text(dir / "missing.csv", "photos/dog/b.png,1\nnowhere.png,1\n");
  EXPECT_EQ(
      run_program(dir.path(), {"pack", "q.h5", "--csv", "missing.csv", "--size", "2x2"}).err,
      "nowhere.png cannot be opened (No such file or directory); repair or remove it, or leave bad images "
      "out with --on-error skip\n");
  write_text(dir / "empty.csv", "");
  EXPECT_EQ(run_program(dir.path(), {"pack", "q.h5", "--csv", "empty.csv", "--size", "2x2"}).err,
            "empty.csv: lists no image; give lines of path,label\n");
  EXPECT_EQ(
      run_program(dir.path(), {"pack", "q.h5", "--csv", "list.csv", "--csv", "list.csv", "--size", "2x2"})
          .err,
      "--csv names list.csv twice; give it once\n");
}

TEST(PackImages, writes_the_same_file_with_any_number_of_jobs) {
  const TempDir dir;
  for (int i = 0; i < 40; ++i) {
    write_image(dir / ("photos/c" + std::to_string(i % 3)) / (std::to_string(100 + i) + ".png"), 6, 9,
                {static_cast<double>(i), 2.0 * i, 3.0 * i});
  }
  for (const std::string jobs : {"1", "4"}) {
    ASSERT_EQ(run_program(dir.path(), {"pack", "j" + jobs + ".h5", "--images", "photos", "--size", "5x5",
                                       "--chunk", "7", "--jobs", jobs})
                  .exit_code,
              0);
  }
  EXPECT_EQ(read_through_libhdf5(dir / "j1.h5", "images"), read_through_libhdf5(dir / "j4.h5", "images"));
  EXPECT_EQ(std::filesystem::file_size(dir / "j1.h5"), std::filesystem::file_size(dir / "j4.h5"));
}

TEST(PackImages, explains_wrong_usage) {
  const TempDir dir;
  write_classes(dir);
  const auto error = [&](std::vector<std::string> arguments, int code) {
    arguments.insert(arguments.begin(), {"pack", "q.h5"});
    const ProgramResult result = run_program(dir.path(), arguments);
    EXPECT_EQ(result.exit_code, code) << result.err;
    return result.err;
  };
  EXPECT_EQ(error({}, 2),
            "nothing to pack; name the source by --images, --csv, --idx, --npy, --cifar10 or --cifar100\n");
  EXPECT_EQ(error({"--images", "photos"}, 2),
            "pixels need one size: give --size 224x224 (height x width), or keep "
            "the files as they are with --store bytes\n");
  EXPECT_EQ(error({"--images", "photos", "--size", "0x4"}, 2),
            "--size \"0x4\": give height x width, such as 224x224\n");
  EXPECT_EQ(error({"--images", "photos", "--size", "4"}, 2),
            "--size \"4\": give height x width, such as 224x224\n");
  EXPECT_EQ(error({"--images", "photos", "--size", "4x4", "--fit", "best"}, 2),
            "--fit \"best\": give crop, pad, stretch\n");
  EXPECT_EQ(error({"--images", "nowhere", "--size", "4x4"}, 1),
            "nowhere: there is no such folder; give a folder with one subfolder per class\n");
  EXPECT_EQ(error({"--images", "photos", "--size", "99999x4"}, 2),
            "--size \"99999x4\" is too large; give at most 65,536 pixels a side\n");
  EXPECT_EQ(error({"--images", "photos", "--images", "./photos/", "--size", "4x4"}, 2),
            "--images names ./photos/ twice; give it once\n");
  EXPECT_EQ(error({"--images", "a=photos", "--images", "a=photos", "--size", "4x4"}, 2),
            "--images names photos twice for group a; give it once\n");
  // A source that cannot be read is reported before options that are missing.
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error({"--images", "pipe"}, 1),
            "pipe: it is not a folder; give a folder with one subfolder per class\n");
  EXPECT_THAT(error({"--csv", "pipe"}, 1), ::testing::StartsWith("pipe: "));
  EXPECT_THAT(error({"--csv", "nowhere.csv"}, 1), ::testing::StartsWith("nowhere.csv: "));
  EXPECT_THAT(names_in(dir.path()), ElementsAre("photos", "pipe"));
}
#endif

std::string npy(const std::string& header, const std::string& values) {
  std::string text = header;
  text.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
  text += '\n';
  const auto size = static_cast<unsigned>(text.size());
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(size & 0xFFU) +
         static_cast<char>(size >> 8U) + text + values;
}

TEST(PackNpy, keeps_values_in_either_byte_order) {
  const TempDir dir;
  write_text(dir / "x.npy", npy("{'descr': '>i2', 'fortran_order': False, 'shape': (2, 3), }",
                                std::string("\0\1\0\2\0\3\1\0\1\1\1\2", 12)));
  write_text(dir / "y.npy",
             npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", std::string("\1\0", 2)));
  const ProgramResult result =
      run_program(dir.path(), {"pack", "p.h5", "--npy", "x=x.npy", "--npy", "y=y.npy"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(H5File::open(dir / "p.h5")->describe("x").shape_text(), "2×3 i16");
  EXPECT_THAT(values(dir, "x"), ElementsAre(1, 0, 2, 0, 3, 0, 0, 1, 1, 1, 2, 1));
  EXPECT_THAT(values(dir, "y"), ElementsAre(1, 0));
}

TEST(PackNpy, refuses_what_it_cannot_store) {
  const TempDir dir;
  const auto error = [&](const std::string& content) {
    write_text(dir / "x.npy", content);
    const ProgramResult result = run_program(dir.path(), {"pack", "q.h5", "--npy", "x=x.npy"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_FALSE(std::filesystem::exists(dir / "q.h5"));
    return result.err;
  };
  EXPECT_THAT(error("not numpy at all"), HasSubstr("x.npy is not a .npy file; check the file\n"));
  EXPECT_THAT(error(npy("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }", "123456789012")),
              HasSubstr("x.npy is in Fortran order; save it with numpy.ascontiguousarray"));
  EXPECT_THAT(error(npy("{'descr': '<U3', 'fortran_order': False, 'shape': (2,), }", "")),
              HasSubstr("x.npy has elements of type <U3; h5feed packs integers"));
  EXPECT_THAT(error(npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), }", "1234")),
              HasSubstr("x.npy is cut short: its header promises 2×3 i64"));
  EXPECT_THAT(error(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", "123")),
              ::testing::StartsWith("x.npy continues after its array"))
      << "before anything is announced";
}

TEST(PackCifar, stores_images_labels_and_names_of_both_kinds) {
  const TempDir dir;
  std::string ten, hundred;
  for (int i = 0; i < 3; ++i) {
    const std::string pixels(3072, static_cast<char>(i + 1));
    ten += std::string(1, static_cast<char>(i)) + pixels;
    hundred += std::string(1, static_cast<char>(i)) + std::string(1, static_cast<char>(90 + i)) + pixels;
  }
  write_text(dir / "a.bin", ten);
  write_text(dir / "b.bin", ten.substr(3073));
  write_text(dir / "t.bin", ten);
  write_text(dir / "c.bin", hundred);
  write_text(dir / "batches.meta.txt", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n\n");
  ProgramResult result = run_program(dir.path(), {"pack", "p.h5", "--cifar10", "train=a.bin", "--cifar10",
                                                  "train=b.bin", "--cifar10", "test=t.bin"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(H5File::open(dir / "p.h5")->describe("train/images").shape_text(), "5×3×32×32 u8");
  EXPECT_THAT(values(dir, "train/labels"), ElementsAre(0, 1, 2, 1, 2));
  EXPECT_EQ(values(dir, "train/images")[3 * 3072], 2);
  EXPECT_EQ(class_names(dir / "p.h5", "test/labels").back(), "9");
  EXPECT_EQ(numbers(dir / "p.h5", "train/images", "max").size(), 3U);

  result = run_program(dir.path(), {"pack", "p.h5", "--cifar100", "c.bin", "--force"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(values(dir, "labels"), ElementsAre(90, 91, 92));
  EXPECT_THAT(values(dir, "coarse_labels"), ElementsAre(0, 1, 2));
  EXPECT_EQ(run_program(dir.path(), {"pack", "q.h5", "--cifar10", "t.bin", "--cifar10", "t.bin"}).err,
            "--cifar10 names t.bin twice; give it once\n");
  EXPECT_THAT(run_program(dir.path(), {"pack", "q.h5", "--cifar10", "c.bin"}).err,
              HasSubstr("are no whole number of records of 3073"));
}

}  // namespace
}  // namespace h5feed::test
