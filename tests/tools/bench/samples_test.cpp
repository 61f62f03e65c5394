// SPDX-License-Identifier: Apache-2.0
// Samples of every form that `h5feed info` recognises, through `h5feed bench`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "support/files/h5_test_file.hpp"
#include "support/files/image_bytes.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// What `info` prints of the file, after the name of the reading, as arguments for `bench`.
std::vector<std::string> options_of(const TempDir& dir, const std::string& file, const std::string& reading) {
  const std::string out = run_program(dir.path(), {"info", file}).out;
  const auto begin = out.find("\n" + reading + ": ");
  if (begin == std::string::npos) ADD_FAILURE() << out;
  std::istringstream line(out.substr(begin + reading.size() + 3, out.find('\n', begin + 1) - begin));
  std::vector<std::string> options;
  for (std::string word; line >> word && word.front() != '(';) {
    std::erase(word, '\'');
    options.push_back(word);
  }
  return options;
}

TEST(BenchSamples, takes_the_options_that_info_prints_for_every_kind_of_sample) {
  const TempDir dir;
  {
    H5TestFile file(dir / "groups.h5");
    for (const char* const name : {"0", "1", "2"}) {
      const Hid group(H5Gcreate2(file.id(), name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      file.create({.path = std::string(name) + "/data", .file_type = H5T_IEEE_F32LE, .shape = {4, 6}});
      file.create({.path = std::string(name) + "/target", .file_type = H5T_STD_I64LE});
    }
    H5TestFile one(dir / "one.h5");
    one.create({.path = "slide", .shape = {40, 50, 3}});
    one.create({.path = "mask", .shape = {40, 50}});
    H5TestFile pixels(dir / "pixels.h5");
    write_ragged(pixels, "images", {Bytes(3 * 4 * 5), Bytes(3 * 6 * 5)});
    const std::vector<std::int32_t> shapes = {3, 4, 5, 3, 6, 5};
    pixels.create({.path = "images_shapes", .file_type = H5T_STD_I32LE, .shape = {2, 3}});
    pixels.write("images_shapes", std::as_bytes(std::span(shapes)));
#ifdef H5FEED_TEST_IMAGES
    H5TestFile photos(dir / "photos.h5");
    write_ragged(photos, "encoded",
                 {encoded(picture(20, 30, 3, 1), ".jpg"), encoded(picture(25, 20, 3, 2), ".png")});
#endif
  }
  const auto bench = [&](const std::string& file, std::vector<std::string> options) {
    options.insert(options.begin(), {"bench", file, "--json", "--runs", "1", "--warmup", "0", "--num-workers",
                                     "1", "--time-budget", "100ms"});
    const ProgramResult result = run_program(dir.path(), options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? Json::parse(result.out).at("settings") : Json();
  };
  EXPECT_EQ(bench("groups.h5", options_of(dir, "groups.h5", "3 groups, 3 samples")).at("sample"), "dataset");
  EXPECT_EQ(bench("one.h5", options_of(dir, "one.h5", "one image of 40×50 in a file")).at("target"), "/mask");
#ifdef H5FEED_TEST_IMAGES  // they are scaled by OpenCV
  std::vector<std::string> options = options_of(dir, "pixels.h5", "2 images of variable length");
  options.insert(options.end(), {"--image-size", "4x5"});
  EXPECT_EQ(bench("pixels.h5", options).at("images").at("shapes"), "/images_shapes");
  options = options_of(dir, "photos.h5", "2 images of variable length");
  options.insert(options.end(), {"--image-size", "16", "--image-color", "gray"});
  EXPECT_EQ(bench("photos.h5", options).at("images").at("color"), "gray");
#endif
}

#ifdef H5FEED_TEST_IMAGES
TEST(BenchSamples, says_what_is_missing_where_images_cannot_be_decoded) {
  const TempDir dir;
  {
    H5TestFile photos(dir / "photos.h5");
    write_ragged(photos, "encoded", {encoded(picture(20, 30, 3, 1), ".jpg")});
  }
  ASSERT_EQ(::setenv("H5FEED_IMAGES", "/no/such/object.so", 1), 0);
  const ProgramResult result =
      run_program(dir.path(), {"bench", "photos.h5", "--data", "encoded", "--image-size", "16"});
  ASSERT_EQ(::unsetenv("H5FEED_IMAGES"), 0);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("images need h5feed_images.so, which is not there (looked for "
                                    "/no/such/object.so); install it with h5feed"));
}
#endif

TEST(BenchSamples, refuses_forms_that_there_are_not) {
  const TempDir dir;
  ASSERT_EQ(run_program(dir.path(), {"generate", "a.h5", "--samples", "20", "--shape", "1,8,8"}).exit_code,
            0);
  const auto refused = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"bench", "a.h5"});
    const ProgramResult result = run_program(dir.path(), options);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_EQ(refused({"--sample", "group"}),
            "--sample \"group\": give row, or dataset: each dataset as a whole\n");
  EXPECT_EQ(refused({"--image-color", "blue"}), "--image-color \"blue\": give rgb, bgr, gray or unchanged\n");
  EXPECT_EQ(refused({"--image-size", "0x5"}),
            "--image-size \"0x5\": give pixels, such as 512, or 512x768 for height and width\n");
  EXPECT_EQ(refused({"--sample", "dataset", "--peer", "pytorch"}),
            "--peer reads rows of one dataset; leave out --sample and the --image options\n");
}

}  // namespace
}  // namespace h5feed::test
