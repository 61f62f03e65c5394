// SPDX-License-Identifier: Apache-2.0
// What holds for every command: first steps, version, help, typos, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/config.hpp"
#include "support/files/file_text.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Program, alone_prints_three_commands_to_try_and_they_work) {
  const TempDir dir;
  const ProgramResult result = run_program(dir.path(), {});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("h5feed generate demo.h5 --samples 2000 --shape 3,64,64 "));
  EXPECT_THAT(result.out, HasSubstr("h5feed doctor demo.h5 "));
  EXPECT_THAT(result.out, HasSubstr("h5feed bench demo.h5 --target labels --shuffle chunk:16 "));

  EXPECT_EQ(
      run_program(dir.path(), {"generate", "demo.h5", "--samples", "2000", "--shape", "3,64,64"}).exit_code,
      0);
  EXPECT_NE(run_program(dir.path(), {"doctor", "demo.h5", "--time-budget", "200ms"}).out, "");
  EXPECT_EQ(run_program(dir.path(), {"bench", "demo.h5", "--target", "labels", "--shuffle", "chunk:16",
                                     "--time-budget", "200ms", "--num-workers", "1"})
                .exit_code,
            0);
}

TEST(Program, prints_version_and_commit) {
  const ProgramResult result = run_program(".", {"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "h5feed " H5FEED_VERSION " (" H5FEED_COMMIT ")\n");
}

// Each library costs time at every start.
TEST(Program, starts_without_image_codecs) {
  ASSERT_EQ(::setenv("LD_TRACE_LOADED_OBJECTS", "1", 1), 0);  // as ldd does
  const ProgramResult result = run_program(".", {});
  ASSERT_EQ(::unsetenv("LD_TRACE_LOADED_OBJECTS"), 0);
  EXPECT_THAT(result.out, HasSubstr("libhdf5"));
  EXPECT_THAT(result.out, Not(AnyOf(HasSubstr("libopencv"), HasSubstr("libgdal"), HasSubstr("libjpeg"))));
}

TEST(Program, every_command_has_help_with_examples) {
  for (const std::string command : {"doctor", "info", "check", "generate", "pack", "repack", "tune", "bench",
                                    "env", "monitor", "report"}) {
    const ProgramResult result = run_program(".", {command, "--help"});
    EXPECT_EQ(result.exit_code, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("Examples:\n  h5feed " + command));
    EXPECT_EQ(result.err, "");
  }
  EXPECT_THAT(run_program(".", {"--help"}).out, HasSubstr("h5feed FILE is h5feed info FILE"));
}

TEST(Program, has_a_manual_page_with_all_that_help_says) {
  const std::string page = run_program(".", {"--man"}).out;
  EXPECT_THAT(page, StartsWith(".TH H5FEED 1 "));
  const std::regex option("\n  (-[^ ,]+)");
  for (const std::string command : {"doctor", "info", "check", "generate", "pack", "repack", "tune", "bench",
                                    "env", "monitor", "report", "completion"}) {
    const auto begin = page.find(".SS h5feed " + command + "\n");
    ASSERT_NE(begin, std::string::npos) << command;
    const std::string section = page.substr(begin, page.find(".SS ", begin + 1) - begin);
    const std::string help = run_program(".", {command, "--help"}).out;
    for (std::sregex_iterator it(help.begin(), help.end(), option), end; it != end; ++it)
      EXPECT_THAT(section, HasSubstr(std::regex_replace((*it)[1].str(), std::regex("-"), "\\-"))) << command;
    EXPECT_THAT(section, HasSubstr("\n  h5feed " + command)) << "an example";
  }
  if (std::system("command -v groff > /dev/null") != 0) GTEST_SKIP() << "groff is not here";
  const TempDir dir;
  std::ofstream(dir / "page.1") << page;
  const std::string check =
      "groff -k -man -Tutf8 -ww -z " + (dir / "page.1").string() + " 2> " + (dir / "warnings").string();
  EXPECT_EQ(std::system(check.c_str()), 0);
  EXPECT_EQ(text_of(dir / "warnings"), "");
}

TEST(Program, takes_help_for_a_command) {
  EXPECT_EQ(run_program(".", {"help"}).out, run_program(".", {"--help"}).out);
  EXPECT_EQ(run_program(".", {"help", "bench"}).out, run_program(".", {"bench", "--help"}).out);
  EXPECT_EQ(run_program(".", {"help", "bnech"}).err, "unknown command \"bnech\"; did you mean bench?\n");
  const TempDir dir;
  std::filesystem::create_directory(dir / "help");
  EXPECT_NE(run_program(dir.path(), {"help"}).exit_code, 0) << "a file of that name";
}

struct Mistake {
  std::vector<std::string> arguments;
  int exit_code;
  std::string message;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.message; }

class Mistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, are_one_line_on_stderr_with_an_exit_code) {
  const TempDir dir;
  const ProgramResult result = run_program(dir.path(), GetParam().arguments);
  EXPECT_EQ(result.exit_code, GetParam().exit_code);
  EXPECT_EQ(result.err, GetParam().message + "\n");
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(names_in(dir.path()), ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Usage, Mistakes,
    ::testing::Values(
        Mistake{{"inof"}, 2, "unknown command \"inof\"; did you mean info?"},
        Mistake{{"frobnicate"}, 2, "unknown command \"frobnicate\"; h5feed --help lists the commands"},
        Mistake{{"--frob"}, 2, "unknown option --frob; try h5feed --help"},
        Mistake{{"info", "a.h5", "--frob=1"}, 2, "unknown option --frob; try h5feed info --help"},
        Mistake{
            {"generate", "", "--samples", "3"}, 2, "an argument is empty; name a file, or try h5feed --help"},
        Mistake{
            {"bench", "a.h5", "--num-workers", ""}, 2, "--num-workers needs a value; an empty one is none"},
        Mistake{{"info", "a.h5", "--data="}, 2, "--data needs a value; an empty one is none"},
        Mistake{{"info", "a.h5", "--json=1"}, 2, "--json takes no value; try h5feed info --help"},
        Mistake{{"check", "a.h5", "--json=nonsense"}, 2, "--json takes no value; try h5feed check --help"},
        Mistake{{"generate", "a.h5", "--samples", "9", "--force=true"},
                2,
                "--force takes no value; try h5feed generate --help"},
        Mistake{{"--version=1"}, 2, "--version takes no value; try h5feed --help"},
        Mistake{{"pack", "a.h5", "--idx", "a="}, 2, "--idx \"a=\": name the file after the ="},
        Mistake{{"info", "a.h5", "--export-csv", "x", "--export-json", "./x"},
                2,
                "two exports name ./x; give each its own file"},
        Mistake{{"info", "a.h5", "b.h5"}, 2, "unexpected argument \"b.h5\"; try h5feed info --help"},
        Mistake{{"info"}, 2, "FILE is required; try h5feed info --help"},
        Mistake{{"bench", "a.h5", "--batch-size"}, 2, "--batch-size needs a value; try h5feed bench --help"},
        Mistake{{"generate", "a.h5"}, 2, "--samples is required; try h5feed generate --help"},
        Mistake{{"generate", "a.h5", "--samples", "0"}, 2, "--samples \"0\": give a whole number from 1 on"},
        Mistake{{"generate", "a.h5", "--samples", "9", "--dtype", "f64"},
                2,
                "--dtype \"f64\": give one of u8, u16, f32"},
        Mistake{{"generate", "a.h5", "--samples", "9", "--shape", "3,0"},
                2,
                "--shape \"3,0\": give the extents of one sample, such as 3,224,224"},
        Mistake{{"generate", "a.h5", "--samples", "9", "--kind", "tokens", "--ratio", "2"},
                2,
                "--ratio has no meaning with --kind tokens"},
        Mistake{{"generate", "a.h5", "--samples", "9", "--kind", "tokens", "--dtype", "u8"},
                2,
                "--low 100 --high 30000: u8 holds 0 to 255; choose a wider --dtype"},
        Mistake{{"generate", "a.h5", "--samples", "9", "--chunk", "none", "--filter", "gzip:4"},
                2,
                "--filter gzip:4 needs chunks, and --chunk none has none; drop one of the two"},
        Mistake{{"generate", "a.h5", "--samples", "99999999", "--chunk", "99999999"},
                2,
                "/images: 99,999,999 samples of 147 KiB do not fit one chunk; HDF5 chunks stay below 4 GiB, "
                "choose a "
                "smaller --chunk"},
        Mistake{{"pack", "a.h5", "--idx", "images.gz"},
                2,
                "--idx \"images.gz\": give NAME=FILE, such as train/images=train-images-idx3-ubyte.gz"},
        Mistake{{"bench", "a.h5", "--num-workers", "1,two"},
                2,
                "--num-workers \"1,two\": give numbers from 0 on or auto, separated by commas, such as "
                "0,1,2,auto"},
        Mistake{{"bench", "a.h5", "--time-budget", "0s"},
                2,
                "--time-budget \"0s\": give a time such as 3s, 500ms or 2m"},
        Mistake{{"bench", "a.h5", "--cache-bytes", "much"},
                2,
                "--cache-bytes \"much\": give a size such as 512MiB or 1.5GiB"}));

INSTANTIATE_TEST_SUITE_P(
    Files, Mistakes,
    ::testing::Values(
        Mistake{{"missing.h5"}, 1, "missing.h5: no such file; check the path"},
        Mistake{{"bench", "missing.h5"}, 1, "missing.h5: no such file; check the path"},
        Mistake{{"generate", "/dev/full", "--samples", "3", "--force"},
                1,
                "/dev/full: not a regular file; choose another name"},
        Mistake{{"info", "a.h5", "--export-json", "/dev/full"},
                1,
                "/dev/full: not a regular file; choose another name"},
        Mistake{{"info", "a.h5", "--export-json", "/dev/stdout"},
                1,
                "/dev/stdout: not a regular file; choose another name"},
        Mistake{{"bench", "a.h5", "--export-csv", "none/x.csv"},
                1,
                "none/x.csv: there is no directory none; create it first"},
        Mistake{{"generate", "none/a.h5", "--samples", "3"},
                1,
                "none/a.h5: there is no directory none; create it first"},
        Mistake{{"pack", "a.h5", "--idx", "x=missing.idx"},
                1,
                "missing.idx cannot be opened (No such file or directory); check the file or fetch it "
                "again"}));

// The program under a shell, for redirections; its exit code, or -1.
int shell_exit_code(const TempDir& dir, const std::string& arguments) {
  const std::string command = "cd '" + dir.path().string() + "' && '" H5FEED_PROGRAM "' " + arguments;
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr const char* kGenerate = "generate a.h5 --samples 4 --shape 1,8,8 --force ";

TEST(Program, reports_a_full_standard_output) {
  // /dev/full refuses every write, as a full disk does.
  const TempDir dir;
  ASSERT_EQ(shell_exit_code(dir, std::string(kGenerate) + ">out.txt 2>&1"), 0);
  for (const std::string arguments : {"info a.h5", "--help", "--version", "pack --help"}) {
    EXPECT_EQ(shell_exit_code(dir, arguments + " >/dev/full 2>err.txt"), 1) << arguments;
  }
}

TEST(Program, works_with_closed_standard_streams) {
  const TempDir dir;
  EXPECT_EQ(shell_exit_code(dir, std::string(kGenerate) + "<&- >out.txt 2>&-"), 0);
  EXPECT_EQ(shell_exit_code(dir, "info a.h5 <&- >out.txt 2>&-"), 0);
  EXPECT_EQ(shell_exit_code(dir, "info a.h5 >&- 2>err.txt"), 1) << "nobody got the result";
  EXPECT_EQ(shell_exit_code(dir, "info missing.h5 2>&-"), 1);
}

TEST(Program, leaves_no_temporary_file_where_nobody_reads_standard_error) {
  const TempDir dir;
  // A FIFO whose reader is gone by the time the program writes.
  EXPECT_EQ(shell_exit_code(
                dir, "--version >/dev/null; mkfifo f; { : <f & } ; { exec 2>f; wait; '" H5FEED_PROGRAM "' " +
                         std::string(kGenerate) + ">out.txt; }"),
            0);
  EXPECT_THAT(names_in(dir.path()), ::testing::ElementsAre("a.h5", "f", "out.txt"));
}

TEST(Program, never_exports_onto_data) {
  const TempDir dir;
  ASSERT_EQ(shell_exit_code(dir, std::string(kGenerate) + ">/dev/null 2>&1"), 0);
  std::filesystem::copy_file(dir / "a.h5", dir / "b.h5");
  const std::string before = text_of(dir / "b.h5");
  for (const std::string option : {"--export-json", "--export-csv", "--export-markdown", "--write-config"}) {
    const ProgramResult result = run_program(dir.path(), {"info", "a.h5", option, "b.h5"});
    EXPECT_EQ(result.exit_code, 2) << option;
    EXPECT_THAT(result.err,
                HasSubstr("b.h5 is an HDF5 file and is not replaced; choose another file, or remove it\n"));
  }
  EXPECT_EQ(text_of(dir / "b.h5"), before);
}

TEST(Program, never_exports_onto_its_input) {
  const TempDir dir;
  ASSERT_EQ(shell_exit_code(dir, std::string(kGenerate) + ">/dev/null 2>&1"), 0);
  std::filesystem::create_symlink("a.h5", dir / "link");
  for (const std::string command : {"info", "bench"}) {
    for (const std::string option : {"--export-json", "--export-csv", "--export-markdown"}) {
      const ProgramResult result = run_program(dir.path(), {command, "a.h5", option, "link"});
      EXPECT_EQ(result.exit_code, 2);
      EXPECT_EQ(result.err, "link is both input and output; choose another export file\n");
    }
  }
  EXPECT_EQ(run_program(dir.path(), {"info", "a.h5"}).exit_code, 0);
}

TEST(Program, writes_through_a_link_and_names_a_parent_that_is_no_directory) {
  const TempDir dir;
  ASSERT_EQ(shell_exit_code(dir, std::string(kGenerate) + ">/dev/null 2>&1"), 0);
  std::filesystem::create_symlink("a.h5", dir / "link");
  EXPECT_EQ(run_program(dir.path(), {"generate", "link", "--samples", "5", "--shape", "1,8,8", "--force"})
                .exit_code,
            0);
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_THAT(run_program(dir.path(), {"info", "a.h5"}).out, HasSubstr("5 images"));
  EXPECT_EQ(run_program(dir.path(), {"generate", "a.h5/x", "--samples", "5"}).err,
            "a.h5/x: a.h5 is not a directory; choose another place\n");
}

}  // namespace
}  // namespace h5feed::test
