// SPDX-License-Identifier: Apache-2.0
// h5feed repack of files whose values are in other files: external storage, sources of virtual datasets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kRows = 40, kWidth = 3;

void write_part(const std::filesystem::path& path, unsigned seed) {
  H5TestFile file(path);
  file.create({.path = "x", .shape = {kRows, kWidth}});
  file.write("x", patterned_bytes(kRows * kWidth, seed));
}

// A file with `outside`, whose values are in other files, and `inside`.
class RepackValues : public ::testing::TestWithParam<bool> {
 protected:
  RepackValues() {
    H5TestFile file(dir_ / "a.h5");
    file.create({.path = "inside", .shape = {kRows, kWidth}});
    file.write("inside", patterned_bytes(kRows * kWidth, 1));
    if (external()) {
      file.create({.path = "outside", .shape = {kRows, kWidth}, .external_file = (dir_ / holder()).string()});
      file.write("outside", patterned_bytes(kRows * kWidth, 2));
      return;
    }
    write_part(dir_ / holder(), 2);
    const std::vector<hsize_t> extent = {kRows, kWidth};
    const Hid space(H5Screate_simple(2, extent.data(), nullptr));
    const Hid plist(H5Pcreate(H5P_DATASET_CREATE));
    require(H5Pset_virtual(plist.get(), space.get(), holder(), "x", space.get()), "H5Pset_virtual");
    const Hid made(
        H5Dcreate2(file.id(), "outside", H5T_STD_U8LE, space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT));
  }

  static bool external() { return GetParam(); }
  static const char* holder() { return external() ? "values.raw" : "values.h5"; }

  void change_values() const {
    if (external()) {
      replace_file(dir_ / holder(), patterned_bytes(kRows * kWidth, 3));
    } else {
      write_part(dir_ / holder(), 3);
    }
  }

  ProgramResult repack(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "repack");
    return run_program(dir_.path(), arguments);
  }

  std::vector<std::byte> values(const char* file, const char* dataset) const {
    return read_through_libhdf5(dir_ / file, dataset);
  }

  const TempDir dir_;
};

TEST_P(RepackValues, makes_no_file_of_parts_before_and_after_a_change_of_the_other_file) {
  const std::vector<std::string> part = {"a.h5", "b.h5", "--dataset", "outside", "--chunk", "5", "--part"};
  const auto with = [&](const char* number) {
    std::vector<std::string> arguments = part;
    arguments.emplace_back(number);
    return arguments;
  };
  ASSERT_EQ(repack(with("0/2")).exit_code, 0);
  change_values();
  const ProgramResult refused = repack(with("1/2"));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err,
              HasSubstr("is no such part: made from another source or with other settings; remove it"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "b.h5")) << "the first part is of other values";
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    if (entry.path().filename().string().find(".part-") != std::string::npos)
      std::filesystem::remove(entry.path());
  }
  ASSERT_EQ(repack(with("0/2")).exit_code, 0);
  ASSERT_EQ(repack(with("1/2")).exit_code, 0);
  EXPECT_EQ(values("b.h5", "outside"), patterned_bytes(kRows * kWidth, 3));
}

TEST_P(RepackValues, never_takes_the_other_file_for_the_output) {
  const std::vector<std::byte> outside = values("a.h5", "outside");
  const std::vector<std::byte> before = file_bytes(dir_ / holder());
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--resume"}}) {
    std::vector<std::string> arguments = {"a.h5", holder(), "--dataset", "inside", "--chunk", "5", "--force"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = repack(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("holds values of a.h5; choose another name for the output"));
  }
  EXPECT_EQ(file_bytes(dir_ / holder()), before);
  EXPECT_EQ(values("a.h5", "outside"), outside);
}

TEST(RepackLinks, are_not_overwritten_where_they_lead) {
  const TempDir dir;
  write_part(dir / "other.h5", 2);
  {
    H5TestFile file(dir / "a.h5");
    file.create({.path = "x", .shape = {kRows, kWidth}});
    require(H5Lcreate_external("other.h5", "/x", file.id(), "link", H5P_DEFAULT, H5P_DEFAULT),
            "H5Lcreate_external");
  }
  const std::vector<std::byte> before = file_bytes(dir / "other.h5");
  const ProgramResult result =
      run_program(dir.path(), {"repack", "a.h5", "other.h5", "--dataset", "x", "--chunk", "5", "--force"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "other.h5 has objects that links of a.h5 lead to; choose another name for the output\n");
  EXPECT_EQ(file_bytes(dir / "other.h5"), before);
}

INSTANTIATE_TEST_SUITE_P(In, RepackValues, ::testing::Bool(), [](const auto& external) {
  return std::string(external.param ? "external_storage" : "virtual_sources");
});

class RepackNames : public ::testing::Test {
 protected:
  void write(unsigned seed) const {
    H5TestFile file(dir_ / "a.h5");
    file.create({.path = "x", .shape = {kRows, kWidth}});
    file.write("x", patterned_bytes(kRows * kWidth, seed));
    file.create({.path = "acc 50%", .shape = {kRows}});
    file.write("acc 50%", patterned_bytes(kRows, seed + 1));
  }

  ProgramResult split(const std::string& out, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"repack", "a.h5", out, "--dataset", "x", "--chunk", "5", "--split", "2"});
    return run_program(dir_.path(), more);
  }

  const TempDir dir_;
};

TEST_F(RepackNames, of_parts_and_datasets_may_have_percent_signs) {
  write(1);
  for (const char* const out : {"100%.h5", "x%b.h5", "a%%b.h5"}) {
    SCOPED_TRACE(out);
    const ProgramResult result = split(out);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    for (const char* const name : {"x", "acc 50%"}) {
      EXPECT_EQ(read_through_libhdf5(dir_ / out, name), read_through_libhdf5(dir_ / "a.h5", name));
    }
    EXPECT_EQ(run_program(dir_.path(), {"check", out}).exit_code, 0);
  }
}

TEST_F(RepackNames, of_parts_of_another_output_are_not_replaced_one_by_one) {
  write(1);
  ASSERT_EQ(split("b.h5").exit_code, 0);
  const std::vector<std::byte> before = read_through_libhdf5(dir_ / "b.h5", "x");
  write(2);
  const ProgramResult result = split("b.h5", {"--force"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(
      result.err,
      "b.h5 and its parts are there, and would be a mixture of old and new ones until all are replaced; "
      "remove b.h5 first, or choose another name for the output\n");
  EXPECT_EQ(read_through_libhdf5(dir_ / "b.h5", "x"), before);
  std::filesystem::remove(dir_ / "b.h5");
  EXPECT_EQ(split("b.h5", {"--force"}).exit_code, 0);
  EXPECT_EQ(read_through_libhdf5(dir_ / "b.h5", "x"), read_through_libhdf5(dir_ / "a.h5", "x"));
}

}  // namespace
}  // namespace h5feed::test
