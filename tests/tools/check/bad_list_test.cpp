// SPDX-License-Identifier: Apache-2.0
// check --bad-list: the chunks that a loader would meet, in the same words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/index/chunk_index.hpp"
#include "support/captured_log.hpp"
#include "support/files/damage.hpp"
#include "support/files/file_text.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/image_bytes.hpp"
#include "support/files/sample_set.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class CheckBadList : public ::testing::Test {
 protected:
  // 400 samples in 100 chunks of four rows in two pieces, three of them damaged. With `by_libhdf5`, the last
  // lies outside the file, so that libhdf5 looks them up.
  void write(bool by_libhdf5 = false) const {
    const std::filesystem::path path = dir_ / "a.h5";
    {
      H5TestFile file(path);
      const std::vector<FilterSpec> filters = {gzip_filter(1), {.id = 3, .params = {}}};
      file.create({.path = "images", .shape = {400, 6, 8}, .chunk = {8, 6, 4}, .filters = filters});
      file.write("images", patterned_bytes(std::size_t{400} * 48));
    }
    const auto index = index_of(path);
    for (const std::size_t chunk : {std::size_t{5}, std::size_t{40}, std::size_t{99}})
      damage(path, index.locations.at(chunk).address + 4, 8);
    if (by_libhdf5) replace_address(path, index.locations.at(99).address, 1U << 30U);
  }

  static ChunkIndex index_of(const std::filesystem::path& path) {
    const auto file = H5File::open(path);
    return build_chunk_index(*file, file->describe("images"));
  }

  std::vector<std::string> sorted_lines(const char* name) const {
    std::vector<std::string> lines = lines_of(text_of(dir_ / name));
    std::ranges::sort(lines);
    return lines;
  }

  ProgramResult check(const std::vector<std::string>& options) const {
    std::vector<std::string> arguments = {"check", "a.h5"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_program(dir_.path(), arguments);
  }

  const CapturedLog log_;
  const TempDir dir_;
};

TEST_F(CheckBadList, is_the_list_of_a_loader) {
  for (const bool by_libhdf5 : {false, true}) {
    SCOPED_TRACE(by_libhdf5);
    write(by_libhdf5);
    const ProgramResult result = check({"--bad-list", "checked.tsv"});
    EXPECT_EQ(result.exit_code, 1);
    {
      DataLoaderOptions options{.batch_size = 16, .shuffle = true, .num_workers = 2};
      options.on_error = OnError::skip;
      options.max_bad_share = 1;
      options.bad_list = dir_ / "loaded.tsv";
      DataLoader loader(Dataset::open({.files = {dir_ / "a.h5"}, .data = "images"}), options);
      while (loader.next()) {
      }
    }
    EXPECT_THAT(sorted_lines("checked.tsv"), SizeIs(4));
    EXPECT_EQ(sorted_lines("checked.tsv"), sorted_lines("loaded.tsv"));
    EXPECT_THAT(text_of(dir_ / "checked.tsv"), HasSubstr("\t2,0,1\t"));
    for (const char* name : {"a.h5", "checked.tsv", "loaded.tsv"}) std::filesystem::remove(dir_ / name);
  }
}

TEST_F(CheckBadList, that_a_full_disk_has_cut_goes_on_in_a_new_line) {
  write();
  check({"--bad-list", "whole.tsv"});
  std::string text = text_of(dir_ / "whole.tsv");
  text.resize(text.size() - 20);
  std::ofstream(dir_ / "cut.tsv") << text;
  check({"--bad-list", "cut.tsv"});
  const std::vector<std::string> lines = sorted_lines("cut.tsv");
  EXPECT_THAT(lines, SizeIs(5)) << "a title, three chunks, and what is left of a line";
  for (const std::string& line : sorted_lines("whole.tsv")) EXPECT_THAT(lines, testing::Contains(line));
}

#ifdef H5FEED_TEST_IMAGES
TEST_F(CheckBadList, has_the_encoded_images_that_do_not_decode) {
  std::vector<Bytes> values;
  for (unsigned i = 0; i < 30; ++i)
    values.push_back(encoded(picture(9, static_cast<int>(7 + i % 3), 3, i), i % 2 == 0 ? ".png" : ".jpg"));
  for (const std::size_t bad : {std::size_t{4}, std::size_t{11}})
    std::fill(values[bad].begin(), values[bad].begin() + 10, std::byte{0x55});
  write_ragged(H5TestFile(dir_ / "a.h5"), "encoded", values);
  EXPECT_EQ(check({"--bad-list", "none.tsv"}).exit_code, 0) << "images are not checked without their size";
  EXPECT_THAT(sorted_lines("none.tsv"), SizeIs(1));
  const ProgramResult result = check({"--bad-list", "checked.tsv", "--image-size", "8"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 corrupt"));
  {
    DataLoaderOptions options{.batch_size = 16, .shuffle = true, .num_workers = 2};
    options.on_error = OnError::replace;
    options.max_bad_share = 1;
    options.bad_list = dir_ / "loaded.tsv";
    DataLoader loader(
        Dataset::open({.files = {dir_ / "a.h5"}, .data = "encoded", .images = {.height = 8, .width = 8}}),
        options);
    while (loader.next()) {
    }
  }
  EXPECT_THAT(sorted_lines("checked.tsv"), SizeIs(3));
  EXPECT_EQ(sorted_lines("checked.tsv"), sorted_lines("loaded.tsv"));
}
#endif

TEST_F(CheckBadList, grows_by_what_is_new) {
  write();
  check({"--bad-list", "bad.tsv"});
  const std::vector<std::string> lines = sorted_lines("bad.tsv");
  check({"--bad-list", "bad.tsv"});
  EXPECT_EQ(sorted_lines("bad.tsv"), lines);
  const std::uint64_t address = [&] {
    const auto file = H5File::open(dir_ / "a.h5");
    return build_chunk_index(*file, file->describe("images")).locations.at(7).address;
  }();
  damage(dir_ / "a.h5", address + 4, 8);
  check({"--bad-list", "bad.tsv"});
  EXPECT_THAT(sorted_lines("bad.tsv"), SizeIs(lines.size() + 1));
}

TEST_F(CheckBadList, is_refused_where_it_cannot_be_written) {
  write();
  const ProgramResult no_folder = check({"--bad-list", "none/bad.tsv"});
  EXPECT_EQ(no_folder.exit_code, 2);
  EXPECT_THAT(no_folder.err,
              HasSubstr("--bad-list: none/bad.tsv cannot be written: No such file or directory; "));
  const ProgramResult itself = check({"--bad-list", "a.h5"});
  EXPECT_EQ(itself.exit_code, 2);
  EXPECT_THAT(itself.err,
              HasSubstr("--bad-list: a.h5 exists and is not a list of bad chunks; name another file"));
}

TEST_F(CheckBadList, leaves_no_file_where_there_is_no_space) {
  write();
  for (const std::uint64_t file_bytes : {0U, 8U}) {
    const ProgramResult full =
        run_program(dir_.path(), {"check", "a.h5", "--bad-list", "bad.tsv"}, {.file_bytes = file_bytes});
    EXPECT_EQ(full.exit_code, 1);
    EXPECT_THAT(full.err, HasSubstr("--bad-list: bad.tsv cannot be written ("));
    EXPECT_THAT(full.err, HasSubstr("); name a file where there is space\n"));
    EXPECT_THAT(names_in(dir_.path()), ElementsAre("a.h5"));
  }
}

}  // namespace
}  // namespace h5feed::test
