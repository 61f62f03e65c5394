// SPDX-License-Identifier: Apache-2.0
// h5feed doctor on files of which a part, or nothing, can be read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/files/file_text.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr std::uint64_t kSamples = 1200;

class DoctorDamage : public ::testing::Test {
 protected:
  // Writes 1,200 images in chunks of 100, and their labels in one. Chunks of images that begin at the rows
  // `damaged`, and that of labels where it is said so, cannot be decoded.
  void write(const std::string& name, const std::vector<std::uint64_t>& damaged = {},
             bool damaged_labels = false) const {
    const std::vector<std::byte> no_stream(50, std::byte{0x5a});
    H5TestFile file(dir_ / name);
    file.create({.path = "images",
                 .shape = {kSamples, 32, 32, 3},
                 .chunk = {100, 32, 32, 3},
                 .filters = {gzip_filter(1)}});
    file.write("images", patterned_bytes(kSamples * 32 * 32 * 3));
    for (const std::uint64_t row : damaged)
      file.write_chunk("images", std::vector<std::uint64_t>{row, 0, 0, 0}, no_stream);
    file.create({.path = "labels", .shape = {kSamples}, .chunk = {kSamples}, .filters = {gzip_filter(1)}});
    file.write("labels", patterned_bytes(kSamples));
    if (damaged_labels) file.write_chunk("labels", std::vector<std::uint64_t>{0}, no_stream);
  }
  Json diagnose(Words words) const {
    words.insert(words.begin(), {"doctor", "--time-budget", "2s", "--json"});
    const ProgramResult result = run_program(dir_.path(), words);
    exit_code_ = result.exit_code;
    return Json::parse(result.out);
  }
  // Returns the only finding.
  Json finding_of(const Words& words) const {
    const Json result = diagnose(words);
    std::vector<Json> findings = result.at("findings");
    std::erase_if(findings, [](const Json& finding) { return finding["finding"] == "too_few_cores"; });
    if (findings.size() != 1) throw std::runtime_error(result.dump(2));
    return findings[0];
  }

  TempDir dir_;
  mutable int exit_code_ = -1;
};

constexpr const char* kCheck = "h5feed check train.h5 --bad-list bad.tsv  # lists all that cannot be read";

TEST_F(DoctorDamage, is_named_with_what_trains_without_it) {
  write("train.h5", {500});
  const Json finding = finding_of({"train.h5"});
  EXPECT_EQ(exit_code_, 1);
  EXPECT_EQ(finding["finding"], "damaged");
  EXPECT_EQ(finding["severity"], "serious");
  EXPECT_THAT(finding["what"].get<std::string>(), StartsWith("train.h5:/images: chunk (5,0,0,0)"));
  EXPECT_THAT(finding["mend"], ElementsAre(kCheck,
                                           "DataLoader(..., on_error=\"skip\", max_bad_share=0.084)"
                                           "  # trains without the 100 damaged of 1,200 samples"));
}

TEST_F(DoctorDamage, that_the_settings_do_without_is_counted) {
  write("train.h5", {500, 1100});
  for (const char* const way : {"skip", "replace"}) {
    const Json finding = finding_of({"train.h5", "--on-error", way, "--set", "max_bad_share=0.17"});
    EXPECT_EQ(exit_code_, 0);
    EXPECT_EQ(finding["finding"], "damaged");
    EXPECT_EQ(finding["severity"], "minor");
    EXPECT_EQ(finding["what"],
              std::string("/images: 200 of 1,200 samples cannot be read; the settings ") + way + " them");
    EXPECT_THAT(finding["mend"], ElementsAre(kCheck));
  }
}

TEST_F(DoctorDamage, that_the_settings_skip_is_serious_if_it_is_too_much) {
  write("train.h5", {500});
  const Json finding = finding_of({"train.h5", "--on-error", "skip"});
  EXPECT_EQ(exit_code_, 1);
  EXPECT_EQ(finding["finding"], "damaged");
  EXPECT_EQ(finding["severity"], "serious");
  EXPECT_THAT(finding["what"].get<std::string>(), HasSubstr("max_bad_share"));
  EXPECT_THAT(finding["mend"].at(1).get<std::string>(), HasSubstr("max_bad_share=0.084)"));
}

TEST_F(DoctorDamage, of_samples_without_batches_is_replaced) {
  write("train.h5", {500});
  EXPECT_THAT(finding_of({"train.h5", "--batch-size", "none"})["mend"].at(1).get<std::string>(),
              StartsWith("DataLoader(..., on_error=\"replace\", max_bad_share=0.084)"));
}

TEST_F(DoctorDamage, of_everything_is_not_trained_without) {
  write("train.h5", {0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100});
  EXPECT_THAT(finding_of({"train.h5"})["mend"], ElementsAre(kCheck));
}

TEST_F(DoctorDamage, in_any_of_several_files_is_named_with_that_file) {
  write("part-1.h5");
  write("part-2.h5", {100});
  const Json finding = finding_of({"part-*.h5"});
  EXPECT_EQ(finding["finding"], "damaged");
  EXPECT_THAT(finding["what"].get<std::string>(), StartsWith("part-2.h5:/images: "));
  EXPECT_THAT(finding["mend"].at(0).get<std::string>(), StartsWith("h5feed check part-2.h5 --bad-list "));
  const Json storage = diagnose({"part-*.h5"})["storage"];
  EXPECT_EQ(storage, diagnose({"part-1.h5"})["storage"]);
}

TEST_F(DoctorDamage, of_labels_is_a_finding_of_a_file_that_is_not_opened) {
  write("train.h5", {}, true);
  const Json result = diagnose({"train.h5", "--export-json", "a.json"});
  EXPECT_EQ(exit_code_, 1);
  EXPECT_EQ(Json::parse(text_of(dir_ / "a.json")), result);
  EXPECT_EQ(result["samples"], nullptr);
  EXPECT_EQ(result["findings"].at(0)["finding"], "damaged");
  EXPECT_THAT(result["findings"].at(0)["what"].get<std::string>(), StartsWith("train.h5:/labels: chunk (0)"));
  EXPECT_THAT(result["findings"].at(0)["mend"], ElementsAre(kCheck));
  const ProgramResult page = run_program(dir_.path(), {"doctor", "train.h5"});
  EXPECT_THAT(page.out, HasSubstr("1 serious finding\n\n1. damaged (serious): train.h5:/labels: "));
}

TEST_F(DoctorDamage, of_a_file_that_cannot_be_opened_is_told_with_what_its_error_advises) {
  write("train.h5");
  std::vector<std::byte> bytes = file_bytes(dir_ / "train.h5");
  bytes.resize(bytes.size() / 2);
  replace_file(dir_ / "train.h5", bytes);
  Json finding = finding_of({"train.h5"});
  EXPECT_EQ(exit_code_, 1);
  EXPECT_EQ(finding["finding"], "unreadable");
  EXPECT_THAT(finding["what"].get<std::string>(), StartsWith("train.h5: truncated: the file has "));
  EXPECT_THAT(finding["mend"], ElementsAre("copy it again from its source"));

  std::ofstream(dir_ / "no.h5") << "no HDF5 file";
  finding = finding_of({"no.h5"});
  EXPECT_EQ(finding["what"], "no.h5: not an HDF5 file");
  EXPECT_THAT(finding["mend"], ElementsAre("check the path, and unpack it if it is compressed"));
}

}  // namespace
}  // namespace h5feed::test
