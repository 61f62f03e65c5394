// SPDX-License-Identifier: Apache-2.0
// h5feed doctor, bench and tune on encoded images of variable length.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
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

// Forty images beside their labels.
class DoctorImages : public ::testing::Test {
 protected:
  void write(const std::vector<Bytes>& images) {
    H5TestFile file(dir_ / "a.h5");
    write_ragged(file, "images", images);
    file.create({.path = "labels", .shape = {images.size()}});
    file.write("labels", patterned_bytes(images.size()));
  }
  Json diagnose(std::vector<std::string> arguments, int exit_code) {
    arguments.insert(arguments.begin(), {"doctor", "a.h5", "--time-budget", "2s", "--json"});
    const ProgramResult result = run_program(dir_.path(), arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err << result.out;
    return Json::parse(result.out);
  }
  std::string refusal(const std::vector<std::string>& arguments) {
    const ProgramResult result = run_program(dir_.path(), arguments);
    EXPECT_EQ(result.exit_code, 1) << result.out;
    return result.err;
  }

  TempDir dir_;
};

#ifdef H5FEED_TEST_IMAGES
std::vector<Bytes> pngs(bool of_one_size) {
  std::vector<Bytes> images;
  for (unsigned i = 0; i < 40; ++i)
    images.push_back(encoded(picture(12, of_one_size || i != 33 ? 16 : 17, 3, i), ".png"));
  return images;
}

TEST_F(DoctorImages, of_different_sizes_are_a_finding_whose_mend_works) {
  write(pngs(false));
  const Json result = diagnose({"--target", "labels", "--num-workers", "1", "--set", "prefetch_factor=3"}, 1);
  ASSERT_EQ(result["findings"].size(), 1U) << result;
  const Json& finding = result["findings"].at(0);
  EXPECT_EQ(finding.at("finding"), "image_sizes");
  EXPECT_EQ(finding.at("mend").at(0),
            "h5feed doctor a.h5 --target labels --set prefetch_factor=3 --num-workers 1 --image-size 12x16"
            "  # scales all to the size of the first");
  const Json mended = diagnose(
      {"--target", "labels", "--set", "prefetch_factor=3", "--num-workers", "1", "--image-size", "12x16"}, 0);
  EXPECT_EQ(mended["data"], "/images");
  EXPECT_EQ(diagnose({"--image-size", "12x16"}, 0)["data"], "/images") << "the size does not choose the data";
}

TEST_F(DoctorImages, that_are_cut_into_tiles_are_scaled_to_the_first_image_and_not_to_a_tile) {
  write(pngs(false));
  const Json result = diagnose({"--data", "images", "--tile-size", "4"}, 1);
  EXPECT_EQ(result["findings"].at(0).at("finding"), "image_sizes");
  EXPECT_EQ(result["findings"].at(0).at("mend").at(0),
            "h5feed doctor a.h5 --data images --tile-size 4 --image-size 12x16  # scales all to the size of "
            "the first");
  diagnose({"--data", "images", "--tile-size", "4", "--image-size", "12x16"}, 0);
}

TEST_F(DoctorImages, of_which_the_first_is_damaged_need_a_size_to_be_checked) {
  std::vector<Bytes> images = pngs(true);
  images[0].resize(60);
  write(images);
  EXPECT_EQ(
      diagnose({}, 1).at("findings").at(0).at("mend").at(0),
      "h5feed check a.h5 --image-size HEIGHTxWIDTH --bad-list bad.tsv  # lists all that cannot be read");
  const Json finding = diagnose({"--image-size", "12x16"}, 1).at("findings").at(0);
  EXPECT_EQ(finding.at("finding"), "damaged");
  EXPECT_EQ(finding.at("mend").at(0),
            "h5feed check a.h5 --image-size 12x16 --bad-list bad.tsv  # lists all that cannot be read");
}

TEST_F(DoctorImages, that_are_damaged_are_said_to_be_so) {
  std::vector<Bytes> images = pngs(true);
  images[20].resize(60);
  write(images);
  const Json finding = diagnose({}, 1).at("findings").at(0);
  EXPECT_EQ(finding.at("finding"), "damaged");
  EXPECT_THAT(finding.at("what").get<std::string>(),
              HasSubstr("its header says 12×16 pixels, but OpenCV cannot decode them"));
  EXPECT_EQ(finding.at("mend").at(0),
            "h5feed check a.h5 --image-size 12x16 --bad-list bad.tsv  # lists all that cannot be read");
  const ProgramResult check =
      run_program(dir_.path(), {"check", "a.h5", "--image-size", "12x16", "--bad-list", "bad.tsv"});
  EXPECT_THAT(check.out, HasSubstr("1 corrupt"));
}
#endif

TEST_F(DoctorImages, are_what_the_hints_name_and_are_not_tuned) {
  write(std::vector<Bytes>(40, Bytes(12)));
  EXPECT_THAT(refusal({"bench", "a.h5"}), HasSubstr("Try: h5feed bench a.h5 --data images --target labels"));
  EXPECT_THAT(refusal({"tune", "a.h5"}), HasSubstr("Try: h5feed tune a.h5 --data labels\n"));
}

}  // namespace
}  // namespace h5feed::test
