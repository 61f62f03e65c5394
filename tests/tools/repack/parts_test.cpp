// SPDX-License-Identifier: Apache-2.0
// h5feed repack --split, --part, --resume: parts that together are the source, however often it was
// interrupted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "store/filters/filters.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/index/chunk_index.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/repack_runs.hpp"
#include "support/programs/run_program.hpp"
#include "tools/repack/part_plan.hpp"
#include "tools/storage/row_range_reader.hpp"

namespace h5feed::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kRows = 57;

// Images whose edges exceed the shape, labels in other chunks, values in the other byte order, rows never
// written with a fill value of their own, a table of another length, and a text.
void write_source(const TempDir& dir) {
  H5TestFile file(dir / "a.h5");
  file.create({.path = "images",
               .shape = {kRows, 6, 5, 3},
               .chunk = {8, 4, 5, 2},
               .filters = parse_filters("shuffle+gzip:1", 1)});
  file.write("images", patterned_bytes(kRows * 6 * 5 * 3));
  file.create({.path = "labels", .file_type = H5T_STD_I64LE, .shape = {kRows}, .chunk = {20}});
  file.write("labels", patterned_bytes(kRows * 8, 3));
  file.create({.path = "depth", .file_type = H5T_IEEE_F32BE, .shape = {kRows, 7}, .chunk = {10, 7}});
  file.write("depth", patterned_bytes(kRows * 7 * 4, 5));
  file.create({.path = "sparse",
               .file_type = H5T_STD_I16BE,
               .shape = {kRows, 4},
               .chunk = {8, 4},
               .fill_value = {std::byte{0x12}, std::byte{0x34}}});
  file.write_box("sparse", std::vector<std::uint64_t>{16, 0}, std::vector<std::uint64_t>{8, 4},
                 patterned_bytes(8 * 4 * 2));
  file.create({.path = "table", .file_type = H5T_STD_I32LE, .shape = {9}});
  file.write("table", patterned_bytes(9 * 4));
  file.create({.path = "flat", .shape = {kRows, 3}});
  file.write("flat", patterned_bytes(kRows * 3, 9));
  const Hid text(H5Tcopy(H5T_C_S1));
  file.create({.path = "names", .file_type = text.get(), .shape = {kRows}});
}

const std::vector<std::string>& datasets() {
  static const std::vector<std::string> kNames = {"images", "labels", "depth", "sparse", "table", "flat"};
  return kNames;
}

void expect_equal(const TempDir& dir, const std::string& copy) {
  for (const std::string& name : datasets()) {
    EXPECT_EQ(read_through_libhdf5(dir / copy, name), read_through_libhdf5(dir / "a.h5", name)) << name;
  }
}

// Returns where the first chunk of a dataset begins in its file.
std::size_t first_chunk(const std::filesystem::path& path, const std::string& dataset) {
  const auto file = H5File::open(path);
  return static_cast<std::size_t>(chunk_locations(*file, file->describe(dataset)).front().address);
}

TEST(RepackParts, split_into_files_with_a_virtual_dataset_over_them) {
  const TempDir dir;
  write_source(dir);
  const ProgramResult result = repack(dir, {"--chunk", "5", "--filter", "gzip:1", "--split", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(names_in(dir.path()),
              ElementsAre("a.h5", "b.h5", "b.part-0-of-3.h5", "b.part-1-of-3.h5", "b.part-2-of-3.h5"));
  expect_equal(dir, "b.h5");
  const auto file = H5File::open(dir / "b.h5");
  EXPECT_EQ(file->describe("images").layout, StorageLayout::virtual_dataset);
  EXPECT_EQ(file->describe("labels").layout, StorageLayout::virtual_dataset);
  EXPECT_EQ(file->describe("table").layout, StorageLayout::contiguous);
  EXPECT_TRUE(file->describe("depth").byte_swapped);
  const DatasetInfo part = H5File::open(dir / "b.part-1-of-3.h5")->describe("images");
  EXPECT_EQ(part.shape_text(), "20×6×5×3 u8");
  EXPECT_THAT(part.chunk_shape, ElementsAre(5, 6, 5, 3));
  EXPECT_EQ(H5File::open(dir / "b.part-1-of-3.h5")->describe("labels").rows(), 20U);
}

TEST(RepackParts, let_every_machine_write_one_and_the_last_the_whole) {
  const TempDir dir;
  write_source(dir);
  const auto part = [&](const std::string& which) {
    const ProgramResult result = repack(dir, {"--chunk", "5", "--part", which});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(part("2/3"), "wrote b.part-2-of-3.h5\nb.h5 appears when all 3 parts are there\n");
  EXPECT_THAT(names_in(dir.path()), ElementsAre("a.h5", "b.part-2-of-3.h5"));
  part("0/3");
  EXPECT_THAT(part("1/3"), HasSubstr("wrote b.part-1-of-3.h5\nwrote b.h5 ("));
  expect_equal(dir, "b.h5");
}

TEST(RepackParts, are_never_mixed_with_those_of_another_plan) {
  const TempDir dir;
  write_source(dir);
  ASSERT_EQ(repack(dir, {"--chunk", "5", "--part", "0/2"}).exit_code, 0);
  // With other chunks neither this part nor the other one: OUT could never appear.
  for (const char* part : {"0/2", "1/2"}) {
    const ProgramResult refused = repack(dir, {"--chunk", "4", "--part", part, "--resume"});
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_EQ(
        refused.err,
        "b.part-0-of-2.h5 is no such part: made from another source or with other settings; remove it, or "
        "--force to replace it\n");
  }
  ASSERT_EQ(repack(dir, {"--chunk", "4", "--part", "1/2", "--force"}).exit_code, 0);
  EXPECT_THAT(names_in(dir.path()), ::testing::Not(Contains("b.h5")));
  ASSERT_EQ(repack(dir, {"--chunk", "4", "--part", "0/2", "--force"}).exit_code, 0);
  expect_equal(dir, "b.h5");
}

TEST(RepackParts, are_never_mixed_with_those_of_other_datasets) {
  const TempDir dir;
  write_source(dir);
  ASSERT_EQ(repack(dir, {"--dataset", "labels", "--filter", "none", "--part", "0/2"}).exit_code, 0);
  const ProgramResult refused = repack(dir, {"--dataset", "images", "--filter", "none", "--part", "1/2"});
  EXPECT_EQ(refused.exit_code, 1) << "its parts end at other rows";
  EXPECT_THAT(refused.err,
              HasSubstr("b.part-0-of-2.h5 is no such part: made from another source or with other"));
}

TEST(RepackParts, do_not_replace_the_source_or_a_file_that_is_no_part) {
  const TempDir dir;
  write_source(dir);
  const std::vector<std::byte> source = read_through_libhdf5(dir / "a.h5", "images");
  const auto refused = [&](const std::string& name, std::vector<std::string> options) {
    std::filesystem::rename(dir / "a.h5", dir / name);
    std::vector<std::string> arguments = {"repack", name, "b.h5", "--dataset", "images", "--chunk", "5"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ProgramResult result = run_program(dir.path(), arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(
        result.err,
        name + " is the input, and has the name of a part of b.h5; choose another name for the output\n");
    EXPECT_THAT(names_in(dir.path()), ElementsAre(name));
    std::filesystem::rename(dir / name, dir / "a.h5");
    EXPECT_EQ(read_through_libhdf5(dir / "a.h5", "images"), source);
  };
  refused("b.part-1-of-2.h5", {"--part", "1/2", "--force"});
  refused("b.part-0-of-2.h5", {"--split", "2", "--force"});
  refused(".b.part-0-of-1.h5", {"--resume"});

  std::filesystem::copy_file(dir / "a.h5", dir / ".b.part-0-of-1.h5");
  EXPECT_THAT(repack(dir, {"--dataset", "images", "--chunk", "5", "--resume"}).err,
              HasSubstr(".b.part-0-of-1.h5 is no such part: "));
  EXPECT_EQ(read_through_libhdf5(dir / ".b.part-0-of-1.h5", "images"), source);
}

TEST(RepackParts, are_not_begun_where_the_rest_cannot_be_copied) {
  const TempDir dir;
  {
    H5TestFile file(dir / "a.h5");
    file.create({.path = "images", .shape = {kRows, 6}, .chunk = {8, 6}});
    file.create_converted("view", {4, 6}, patterned_bytes(4 * 6));
  }
  const ProgramResult result = repack(dir, {"--dataset", "images", "--chunk", "4", "--resume"});
  EXPECT_EQ(result.exit_code, 1) << result.out;
  EXPECT_THAT(result.err, HasSubstr("a.h5:/view: a virtual dataset, which HDF5 1.8 cannot read"));
  EXPECT_THAT(names_in(dir.path()), ElementsAre("a.h5"));
}

TEST(RepackParts, go_on_where_an_interruption_left_them) {
  const TempDir dir;
  write_source(dir);
  ASSERT_EQ(repack(dir, {"--chunk", "5", "--part", "1/3"}).exit_code, 0);
  const auto written = std::filesystem::last_write_time(dir / "b.part-1-of-3.h5");
  const ProgramResult result = repack(dir, {"--chunk", "5", "--split", "3", "--resume"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("in 3 parts, kept next to it; 1 is there already"));
  EXPECT_EQ(std::filesystem::last_write_time(dir / "b.part-1-of-3.h5"), written);
  expect_equal(dir, "b.h5");
}

TEST(RepackParts, that_were_changed_since_they_were_verified_are_written_again) {
  for (const std::string filter : {"none", "gzip:1"}) {
    const TempDir dir;
    write_source(dir);
    ASSERT_EQ(repack(dir, {"--chunk", "5", "--filter", filter, "--part", "1/3"}).exit_code, 0);
    const auto part = dir / "b.part-1-of-3.h5";
    auto bytes = file_bytes(part);
    bytes.at(first_chunk(part, "images")) ^= std::byte{0x40};
    replace_file(part, bytes);
    const ProgramResult result =
        repack(dir, {"--chunk", "5", "--filter", filter, "--split", "3", "--resume"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err,
                HasSubstr("b.part-1-of-3.h5 no longer holds the values that it was written with; it "
                          "is written again\n"));
    expect_equal(dir, "b.h5");
  }
}

TEST(RepackParts, that_nobody_verified_are_not_called_verified) {
  const TempDir dir;
  write_source(dir);
  ASSERT_EQ(repack(dir, {"--chunk", "5", "--part", "0/2", "--no-verify"}).exit_code, 0);
  const ProgramResult last = repack(dir, {"--chunk", "5", "--part", "1/2", "--json"});
  ASSERT_EQ(last.exit_code, 0) << last.err;
  const auto json = nlohmann::json::parse(last.out);
  EXPECT_TRUE(json.at("complete").get<bool>());
  EXPECT_FALSE(json.at("verified").get<bool>());
  std::filesystem::remove(dir / "b.h5");
  const ProgramResult resumed = repack(dir, {"--chunk", "5", "--split", "2", "--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("b.part-0-of-2.h5 was written with --no-verify; it is written again\n"));
  EXPECT_THAT(resumed.out, HasSubstr("values verified (SHA-256 of both sides)\n"));
  expect_equal(dir, "b.h5");
}

TEST(RepackParts, resume_gives_the_same_file_as_one_run) {
  const TempDir dir;
  write_source(dir);
  for (const std::string chunk : {"5", "none", "57"}) {
    const ProgramResult result = repack(
        dir, {"--dataset", "images", "depth", "sparse", "flat", "--chunk", chunk, "--resume", "--force"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(names_in(dir.path()), ElementsAre("a.h5", "b.h5"));
    expect_equal(dir, "b.h5");
    ASSERT_EQ(run_program(dir.path(), {"repack", "a.h5", "c.h5", "--dataset", "images", "depth", "sparse",
                                       "flat", "--chunk", chunk, "--force"})
                  .exit_code,
              0);
    for (const std::string& name : datasets()) {
      const DatasetInfo one = H5File::open(dir / "c.h5")->describe(name);
      const DatasetInfo parts = H5File::open(dir / "b.h5")->describe(name);
      EXPECT_EQ(parts.stored_bytes, one.stored_bytes) << name;
      EXPECT_EQ(parts.chunk_shape, one.chunk_shape) << name;
      EXPECT_EQ(parts.byte_swapped, one.byte_swapped) << name;
      EXPECT_EQ(parts.fill_value, one.fill_value) << name;
    }
    std::filesystem::remove(dir / "c.h5");
  }
}

TEST(RepackParts, resume_ends_whole_however_often_it_is_killed) {
  const TempDir dir;
  ASSERT_EQ(run_program(dir.path(), {"generate", "a.h5", "--samples", "400", "--shape", "3,32,32", "--chunk",
                                     "16", "--filter", "gzip:1"})
                .exit_code,
            0);
  const auto source = file_bytes(dir / "a.h5");
  const auto images = read_through_libhdf5(dir / "a.h5", "images");
  const std::vector<std::string> arguments = {"repack", "a.h5",    "b.h5", "--chunk",
                                              "4",      "--split", "5",    "--resume"};
  const auto begin_again = [&] {
    for (const std::string& name : names_in(dir.path())) {
      if (name != "a.h5") std::filesystem::remove(dir / name);
    }
  };
  // Moments up to the end of a run that nobody disturbs.
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run_program(dir.path(), arguments).exit_code, 0);
  std::int64_t latest_us =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count();
  begin_again();
  std::mt19937 random(3);
  constexpr int kKills = 12, kMostRuns = 100;
  int kills = 0;
  bool from_the_start = true;
  for (int runs = 0; kills < kKills && runs < kMostRuns; ++runs) {
    Program program(dir.path(), arguments);
    const auto moment = std::uniform_int_distribution<std::int64_t>(0, latest_us)(random);
    std::this_thread::sleep_for(std::chrono::microseconds(moment));
    program.send(SIGKILL);
    const ProgramResult result = program.wait();
    EXPECT_EQ(file_bytes(dir / "a.h5"), source);
    if (result.signal == SIGKILL) {
      ++kills;
    } else {
      ASSERT_EQ(result.exit_code, 0) << result.err;
      // Runs have become shorter than the first.
      if (from_the_start) latest_us = std::max(moment, std::int64_t{1});
    }
    from_the_start = std::filesystem::exists(dir / "b.h5");
    if (!from_the_start) continue;
    EXPECT_EQ(read_through_libhdf5(dir / "b.h5", "images"), images);
    begin_again();
  }
  EXPECT_GT(kills, 0) << "no signal came in time";
  const ProgramResult last = run_program(dir.path(), arguments);
  ASSERT_EQ(last.exit_code, 0) << last.err;
  EXPECT_EQ(read_through_libhdf5(dir / "b.h5", "images"), images);
  EXPECT_EQ(read_through_libhdf5(dir / "b.h5", "labels"), read_through_libhdf5(dir / "a.h5", "labels"));
}

TEST(RepackParts, explain_wrong_usage) {
  const TempDir dir;
  write_source(dir);
  EXPECT_EQ(repack(dir, {"--chunk", "5", "--split", "20"}).err,
            "--split 20: a.h5:/images has 12 chunks of 5 rows only; split it into fewer\n");
  EXPECT_EQ(repack(dir, {"--chunk", "5", "--part", "3/3"}).err,
            "--part 3/3: parts are counted from 0 to 2\n");
  EXPECT_EQ(repack(dir, {"--chunk", "5", "--part", "x"}).err,
            "--part \"x\": give I/N, counted from 0, such as 0/4, or auto\n");
  EXPECT_EQ(repack(dir, {"--split", "0"}).err, "--split \"0\": give a whole number from 1 to 100000\n");
  EXPECT_EQ(repack(dir, {"--chunk", "5", "--part", "0/3", "--split", "4"}).err,
            "--split 4 and --part 0/3 disagree\n");
  EXPECT_THAT(repack(dir, {"--chunk", "5", "--split", "2", "--shuffle-rows", "1"}).err,
              ::testing::StartsWith("--shuffle-rows moves rows over the whole dataset"));
  EXPECT_THAT(names_in(dir.path()), ElementsAre("a.h5"));
}

TEST(RepackParts, ask_the_launcher_for_their_number) {
  const auto choice = [](const char* rank_name, const char* rank, const char* size_name, const char* size) {
    setenv(rank_name, rank, 1);
    setenv(size_name, size, 1);
    const cli::PartChoice chosen = cli::part_choice({.part = "auto"});
    unsetenv(rank_name);
    unsetenv(size_name);
    return std::pair(chosen.parts, chosen.only.value_or(999));
  };
  EXPECT_EQ(choice("SLURM_PROCID", "3", "SLURM_NTASKS", "8"), std::pair(8UL, 3UL));
  EXPECT_EQ(choice("OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "2"), std::pair(2UL, 0UL));
  EXPECT_EQ(choice("PMI_RANK", "1", "PMI_SIZE", "2"), std::pair(2UL, 1UL));
}

TEST(RowRange, delivers_the_rows_of_its_dataset_wherever_it_begins) {
  const TempDir dir;
  write_source(dir);
  for (const std::string name : {"images", "labels", "depth", "sparse", "flat"}) {
    const auto whole = read_through_libhdf5(dir / "a.h5", name);
    const auto file = H5File::open(dir / "a.h5");
    const auto base = open_chunk_reader(file, file->describe(name));
    const std::uint64_t row_bytes = base->info().row_bytes();
    for (std::uint64_t first = 0; first < kRows; first += 3) {
      for (const std::uint64_t rows : {std::uint64_t{1}, kRows / 3, kRows - first}) {
        if (first + rows > kRows) continue;
        const auto range = cli::make_row_range(base, first, rows, false);
        const ByteBuffer values = read_all(*range, 1);
        ASSERT_TRUE(std::equal(values.data(), values.data() + rows * row_bytes,
                               whole.begin() + static_cast<std::ptrdiff_t>(first * row_bytes)))
            << name << " " << first << " " << rows;
      }
    }
  }
}

}  // namespace
}  // namespace h5feed::test
