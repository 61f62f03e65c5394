// SPDX-License-Identifier: Apache-2.0
// What repack refuses to copy before it writes: values that cannot be read, or that the file does not store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "h5feed/error.hpp"
#include "store/write/object_copy.hpp"
#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/image_bytes.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "tools/storage/isolated.hpp"

namespace h5feed::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class RepackRehearsal : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return dir_ / "a.h5"; }

  static void add_images(H5TestFile& file) {
    file.create({.path = "images", .shape = {8, 4, 4}, .chunk = {4, 4, 4}});
    file.write("images", patterned_bytes(8 * 4 * 4));
  }
  std::string refusal() const {
    const ProgramResult result = run_program(dir_.path(), {"repack", "a.h5", "b.h5", "--chunk", "2"});
    EXPECT_EQ(result.exit_code, 1) << result.out;
    EXPECT_FALSE(std::filesystem::exists(dir_ / "b.h5"));
    return result.err;
  }

  const TempDir dir_;
};

TEST_F(RepackRehearsal, reads_values_of_variable_length_before_anything_is_written) {
  {
    H5TestFile file(path());
    add_images(file);
    write_ragged(file, "texts", {Bytes(10), Bytes(20)});
  }
  const auto file = cli::open_isolated(path());
  EXPECT_NO_THROW(rehearse_copy(*file, {}));
  std::vector<std::byte> bytes = file_bytes(path());
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  bytes.at(text.find("GCOL")) = std::byte{'X'};
  replace_file(path(), bytes);
  EXPECT_THROW(rehearse_copy(*cli::open_isolated(path()), {}), FileError);
  EXPECT_THAT(refusal(), AllOf(StartsWith("a.h5:/texts: its values cannot be read: "), HasSubstr("restore")));
}

TEST_F(RepackRehearsal, does_not_copy_texts_that_are_not_all_stored) {
  {
    H5TestFile file(path());
    add_images(file);
    file.create({.path = "texts", .file_type = H5T_C_S1, .shape = {5}});
    file.write("texts", patterned_bytes(5));
  }
  // Dataspace of version 1: extent, largest extent.
  const auto dataspace = [](std::uint8_t extent) {
    return std::vector<std::uint8_t>{1, 1, 1, 0, 0, 0, 0, 0, extent, 0, 0, 0, 0, 0, 0, 0, extent};
  };
  replace_bytes(path(), dataspace(5), dataspace(200));
  EXPECT_THAT(refusal(), HasSubstr("a.h5:/texts: 5 bytes are stored, its shape needs at least 200; restore"));
}

}  // namespace
}  // namespace h5feed::test
