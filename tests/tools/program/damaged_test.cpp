// SPDX-License-Identifier: Apache-2.0
// What the commands tell of files with damaged objects in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "store/format/dataset_info.hpp"
#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "support/wait_until.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using Json = nlohmann::json;

class DamagedFile : public ::testing::Test {
 protected:
  // A damaged object next to intact images.
  void write(bool group) const {
    {
      H5TestFile file(dir_ / "a.h5");
      file.create({.path = "images", .shape = {6, 5, 4}, .chunk = {2, 5, 4}});
      file.write("images", patterned_bytes(120));
      if (group) {
        const Hid bad(H5Gcreate2(file.id(), "bad", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      } else {
        file.create({.path = "bad", .shape = {3}});
      }
    }
    damage_header(dir_ / "a.h5", "bad");
  }

  ProgramResult run(const std::vector<std::string>& arguments) const {
    return run_program(dir_.path(), arguments);
  }

  TempDir dir_;
};

// The stand-in for h5feed-reader crashes, as libhdf5 would in it.
TEST_F(DamagedFile, every_command_names_a_file_over_which_libhdf5_crashes) {
  write(false);
  ::setenv("H5FEED_READER", H5FEED_FAKE_READER_PROGRAM, 1);
  ::setenv("H5FEED_FAKE_READER", "crash", 1);
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"info", "a.h5"},
                                                    {"check", "a.h5"},
                                                    {"tune", "a.h5", "--data", "images"},
                                                    {"bench", "a.h5", "--data", "images"},
                                                    {"repack", "a.h5", "b.h5", "--chunk", "auto"}}) {
    SCOPED_TRACE(arguments.front());
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 1);
#if defined(H5FEED_ADDRESS_SANITIZER)  // It ends a process that crashes
    EXPECT_THAT(result.err, HasSubstr("a.h5: h5feed-reader, which reads it, ended with exit code 1 "));
#else
    EXPECT_THAT(result.err,
                HasSubstr("a.h5: libhdf5 crashed over it, in a process of its own (SIGSEGV); the file is "
                          "damaged or made to do harm, restore it from a good copy\n"));
#endif
    EXPECT_EQ(names_in(dir_.path()), std::vector<std::string>{"a.h5"});
  }
  ::unsetenv("H5FEED_READER");
  ::unsetenv("H5FEED_FAKE_READER");
}

// Like libhdf5 over some damaged files; only a time limit of a minute would end it.
TEST_F(DamagedFile, every_command_obeys_signals_while_the_reader_does_not_return) {
  write(false);
  ::setenv("H5FEED_READER", H5FEED_FAKE_READER_PROGRAM, 1);
  ::setenv("H5FEED_FAKE_READER", "hang", 1);
  const TempDir elsewhere;
  const std::filesystem::path begun = elsewhere / "begun";
  ::setenv("H5FEED_FAKE_READER_BEGUN", begun.c_str(), 1);
  for (const int signal : {SIGINT, SIGTERM}) {
    for (const char* const command : {"info", "check", "tune", "bench"}) {
      SCOPED_TRACE(command);
      std::filesystem::remove(begun);
      // Longer than the wait below, and shorter than the time limit of the reader.
      Program program(dir_.path(), {command, "a.h5"}, {.timeout = std::chrono::seconds(50)});
      ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(begun); }, std::chrono::seconds(20)));
      program.send(signal);
      const ProgramResult result = program.wait();
      EXPECT_FALSE(result.timed_out);
      EXPECT_EQ(result.exit_code, signal == SIGINT ? 1 : -1) << result.err;
      EXPECT_EQ(result.signal, signal == SIGINT ? 0 : signal);
      EXPECT_THAT(result.err, ::testing::EndsWith("interrupted\n"));
    }
  }
  ::unsetenv("H5FEED_READER");
  ::unsetenv("H5FEED_FAKE_READER");
  ::unsetenv("H5FEED_FAKE_READER_BEGUN");
}

TEST_F(DamagedFile, info_shows_the_intact_objects_and_fails) {
  for (const bool group : {false, true}) {
    SCOPED_TRACE(group);
    write(group);
    const ProgramResult text = run({"info", "a.h5"});
    EXPECT_EQ(text.exit_code, 1);
    EXPECT_THAT(text.out, MatchesRegex("(.*\n)*/bad +- +unreadable .*cannot be read\n(.*\n)*"));
    EXPECT_THAT(text.out, HasSubstr("/images: 6 images of 1×5×4 u8 (stored NHW)"));
    EXPECT_THAT(text.err, MatchesRegex("a.h5:/bad: libhdf5 cannot open it: bad object header [^\n]*\n"));
    const Json json = Json::parse(run({"info", "a.h5", "--json"}).out);
    EXPECT_TRUE(json.at("datasets")[0].at("shape").is_null());
    EXPECT_THAT(json.at("datasets")[0].at("problem"), StartsWith("a.h5:/bad: libhdf5 cannot open it: "));
    EXPECT_EQ(json.at("datasets")[1].at("read_path"), "direct");
  }
}

TEST_F(DamagedFile, check_compares_the_intact_objects_and_fails) {
  for (const bool group : {false, true}) {
    SCOPED_TRACE(group);
    write(group);
    const ProgramResult result = run({"check", "a.h5", "--json"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("\na.h5:/bad: libhdf5 cannot open it: bad object header "));
    const Json json = Json::parse(result.out);
    EXPECT_EQ(json.at("datasets_failed"), 1);
    EXPECT_EQ(json.at("datasets_equal"), 1);
    EXPECT_EQ(json.at("datasets")[1].at("result"), "equal");
  }
}

TEST_F(DamagedFile, is_done_with_an_intact_dataset_that_is_named) {
  write(true);
  for (const char* command : {"info", "check"}) {
    const ProgramResult result = run({command, "a.h5", "--data", "images"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out.find("bad"), std::string::npos) << result.out;
  }
}

TEST_F(DamagedFile, says_why_the_only_images_cannot_be_read) {
  {
    H5TestFile file(dir_ / "a.h5");
    file.create({.path = "images", .shape = {6, 5, 4}});
    file.create({.path = "labels", .shape = {6}});
  }
  damage_header(dir_ / "a.h5", "images");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"bench", "a.h5"}, {"tune", "a.h5"}, {"info", "a.h5", "--stats"}}) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("a.h5:/images: libhdf5 cannot open it: bad object header "))
        << arguments[0];
  }
}

// libhdf5's exit handler finds what it left open, and prints or crashes.
TEST_F(DamagedFile, has_nothing_said_behind_its_error) {
  {
    H5TestFile file(dir_ / "a.h5", {.latest = true});
    file.create({.path = "images", .shape = {6, 5, 4}});
    file.create({.path = "bad", .shape = {3}});
  }
  const std::uint64_t address = header_address(dir_ / "a.h5", "bad");
  std::vector<std::byte> bytes = file_bytes(dir_ / "a.h5");
  bytes.at(address + 20) ^= std::byte{1};  // behind it lies a checksum
  replace_file(dir_ / "a.h5", bytes);
  const ProgramResult info = run({"info", "a.h5"});
  EXPECT_EQ(info.exit_code, 1);
  EXPECT_THAT(info.err, MatchesRegex("a.h5:/bad: libhdf5 cannot open it: [^\n]*\n"));
}

TEST_F(DamagedFile, is_not_repacked) {
  write(false);
  const ProgramResult result = run({"repack", "a.h5", "b.h5", "--chunk", "auto"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, MatchesRegex("a.h5:/bad: libhdf5 cannot open it: [^\n]*\n"));
  EXPECT_EQ(names_in(dir_.path()), std::vector<std::string>{"a.h5"});
}

// libhdf5 would copy it, and could crash.
TEST_F(DamagedFile, is_not_repacked_where_the_index_of_another_dataset_is_damaged) {
  {
    H5TestFile file(dir_ / "a.h5");
    file.create({.path = "images", .shape = {6, 5, 4}});
    file.create({.path = "points", .shape = {6, 4}, .chunk = {2, 4}});
    file.write("points", patterned_bytes(24));
  }
  set_chunk_address(dir_ / "a.h5", 2, 2, std::uint64_t{1} << 40);
  const ProgramResult result = run({"repack", "a.h5", "b.h5", "--chunk", "auto"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, MatchesRegex("a.h5:/points: [^\n]*; restore the file from a good copy\n"));
  EXPECT_EQ(names_in(dir_.path()), std::vector<std::string>{"a.h5"});
}

TEST_F(DamagedFile, has_no_values_for_chunks_that_its_index_lost) {
  {
    H5TestFile file(dir_ / "a.h5");
    file.create({.path = "images", .shape = {6, 5, 4}, .chunk = {2, 5, 4}});
    file.write("images", patterned_bytes(120));
  }
  move_chunk(dir_ / "a.h5", 3, 2, 600);
  for (const char* command : {"info", "check"}) {
    const ProgramResult result = run({command, "a.h5"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("a.h5:/images: chunk (2,0,0) (samples 4-5) is missing in its index"));
  }
}

// libhdf5 reads the other chunks, so that the dataset can be opened.
TEST_F(DamagedFile, is_told_by_info_where_a_part_of_its_index_is_lost) {
  {
    H5TestFile file(dir_ / "a.h5");
    file.create({.path = "good", .shape = {6, 5, 4}, .compact = true});
    file.create({.path = "images", .shape = {6, 5, 4}, .chunk = {2, 5, 4}});
    file.write("images", patterned_bytes(120));
  }
  set_chunk_address(dir_ / "a.h5", 3, 2, std::uint64_t{1} << 40);
  const ProgramResult text = run({"info", "a.h5"});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out,
              MatchesRegex("(.*\n)*/images +6×5×4 +u8 +chunked +3 × \\(2×5×4\\) .* damaged\n(.*\n)*"));
  EXPECT_THAT(text.out, MatchesRegex("(.*\n)*/good .* direct\n(.*\n)*"));
  // HDF5 before 1.10.10 does not list such a chunk at all.
  const std::string problem =
      "a.h5:/images: (the address of a chunk is outside the file|1 entry of its chunk index cannot be read); "
      "restore the file from a good copy";
  EXPECT_THAT(text.err, MatchesRegex(problem + "\n"));
  const Json json = Json::parse(run({"info", "a.h5", "--json"}).out);
  EXPECT_EQ(json.at("datasets")[1].count("read_path"), 0U);
  EXPECT_THAT(json.at("datasets")[1].at("problem").get<std::string>(), MatchesRegex(problem));
  EXPECT_EQ(run({"info", "a.h5", "--data", "good"}).exit_code, 0);
}

TEST_F(DamagedFile, is_told_by_info_where_its_index_gives_a_chunk_no_bytes) {
  {
    H5TestFile file(dir_ / "a.h5");
    file.create({.path = "images",
                 .shape = {6, 5, 4},
                 .chunk = {2, 5, 4},
                 .filters = {{.id = H5Z_FILTER_DEFLATE, .params = {1}, .name = "gzip"}}});
    file.write("images", patterned_bytes(120));
  }
  change_index(dir_ / "a.h5", 3, 2, 0, 0);
  const ProgramResult result = run({"info", "a.h5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(
      result.err,
      "a.h5:/images: its chunk index gives chunk 2 a size of 0 bytes; restore the file from a good copy\n");
}

TEST_F(DamagedFile, is_told_by_info_where_its_index_cannot_be_read) {
  {
    H5TestFile file(dir_ / "a.h5", {.latest = true});
    file.create({.path = "images", .shape = {6, 5, 4}, .chunk = {2, 5, 4}});
    file.write("images", patterned_bytes(120));
  }
  replace_bytes(dir_ / "a.h5", {'F', 'A', 'H', 'D', 0}, {'F', 'A', 'H', 'D', 9});
  const ProgramResult result = run({"info", "a.h5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, MatchesRegex("(.*\n)*/images .* damaged\n(.*\n)*"));
  EXPECT_THAT(result.err,
              MatchesRegex("a.h5:/images: libhdf5 cannot list the chunks: [^\n]*; restore the file "
                           "from a good copy\n"));
}

TEST_F(DamagedFile, is_told_by_info_where_a_chunk_cannot_be_decoded) {
  {
    H5TestFile file(dir_ / "a.h5");
    file.create(
        {.path = "images",
         .shape = {6, 5, 4},
         .chunk = {2, 5, 4},
         .filters = {{.id = 32008, .optional = true, .params = {0, 4, 1, 0, 2}, .name = "bitshuffle"}}});
    // Its header: 40 bytes in all, in blocks of 4 elements, which have to be a multiple of 8.
    std::vector<std::byte> stored(60);
    stored[7] = std::byte{40};
    stored[11] = std::byte{4};
    file.write_chunk("images", std::vector<std::uint64_t>{2, 0, 0}, stored);
  }
  const ProgramResult result = run({"info", "a.h5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, MatchesRegex("(.*\n)*/images .* damaged\n(.*\n)*"));
  EXPECT_THAT(result.err,
              MatchesRegex("a.h5:/images: chunk \\(1,0,0\\) \\(samples 2-3\\)[^\n]*bitshuffle: a block of 4 "
                           "bytes is no multiple of 8 elements[^\n]*\n"));
}

TEST(LongPaths, are_shown_without_their_middle_except_to_programs) {
  const TempDir dir;
  std::string path;
  {
    H5TestFile file(dir / "a.h5");
    Hid group(H5Gopen2(file.id(), "/", H5P_DEFAULT));
    for (int depth = 0; depth < 200; ++depth) {
      path += "/g";
      group = Hid(H5Gcreate2(group.get(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    }
    path += "/images";
    file.create({.path = path, .shape = {6, 5, 4}, .chunk = {2, 5, 4}});
  }
  const std::string shown = short_path(path);
  for (const char* const command : {"info", "check"}) {
    SCOPED_TRACE(command);
    const ProgramResult result = run_program(dir.path(), {command, "a.h5", "--export-csv", "t.csv"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("\n" + shown + "  6×5×4"));
    // To be copied into a command.
    const std::size_t option = result.out.find("--data " + path);
    EXPECT_EQ(option != std::string::npos, std::string(command) == "info");
    EXPECT_EQ(result.out.find(path), option == std::string::npos ? option : option + 7);
    const std::vector<std::byte> csv = file_bytes(dir / "t.csv");
    EXPECT_THAT(std::string(reinterpret_cast<const char*>(csv.data()), csv.size()),
                HasSubstr("\n" + path + ","));
    std::filesystem::remove(dir / "t.csv");
  }
}

}  // namespace
}  // namespace h5feed::test
