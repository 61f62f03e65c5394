// What holds for every command: first steps, version, help, typos, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/config.hpp"
#include "support/run_program.hpp"
#include "support/temp_dir.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Program, AlonePrintsThreeCommandsToTryAndTheyWork) {
  const TempDir dir;
  const ProgramResult result = run_program(dir.path(), {});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("h5feed generate demo.h5 --samples 2000 --shape 3,64,64 "));
  EXPECT_THAT(result.out, HasSubstr("h5feed info demo.h5 "));
  EXPECT_THAT(result.out, HasSubstr("h5feed bench demo.h5 --target labels --shuffle chunk:16 "));

  EXPECT_EQ(
      run_program(dir.path(), {"generate", "demo.h5", "--samples", "2000", "--shape", "3,64,64"}).exit_code,
      0);
  EXPECT_EQ(run_program(dir.path(), {"info", "demo.h5"}).exit_code, 0);
  EXPECT_EQ(run_program(dir.path(), {"bench", "demo.h5", "--target", "labels", "--shuffle", "chunk:16",
                                     "--time-budget", "200ms", "--num-workers", "1"})
                .exit_code,
            0);
}

TEST(Program, PrintsVersionAndCommit) {
  const ProgramResult result = run_program(".", {"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "h5feed " H5FEED_VERSION " (" H5FEED_COMMIT ")\n");
}

TEST(Program, EveryCommandHasHelpWithExamples) {
  for (const std::string command : {"info", "generate", "pack", "bench"}) {
    const ProgramResult result = run_program(".", {command, "--help"});
    EXPECT_EQ(result.exit_code, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("Examples:\n  h5feed " + command + " "));
    EXPECT_EQ(result.err, "");
  }
  EXPECT_THAT(run_program(".", {"--help"}).out, HasSubstr("h5feed FILE is h5feed info FILE"));
}

struct Mistake {
  std::vector<std::string> arguments;
  int exit_code;
  std::string message;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.message; }

class Mistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreOneLineOnStderrWithAnExitCode) {
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
                "--num-workers \"1,two\": give numbers from 0 on, separated by commas, such as 0,1,2,4"},
        Mistake{{"bench", "a.h5", "--time-budget", "0s"},
                2,
                "--time-budget \"0s\": give a time such as 3s, 500ms or 2m"},
        Mistake{{"bench", "a.h5", "--cache-bytes", "much"},
                2,
                "--cache-bytes \"much\": give a size such as 512MiB or 1.5GiB"}));

INSTANTIATE_TEST_SUITE_P(
    Files, Mistakes,
    ::testing::Values(
        Mistake{{"missing.h5"}, 1, "missing.h5: no such file"},
        Mistake{{"bench", "missing.h5"}, 1, "missing.h5: no such file"},
        Mistake{{"generate", "none/a.h5", "--samples", "3"},
                1,
                "none/a.h5: there is no directory none; create it first"},
        Mistake{{"pack", "a.h5", "--idx", "x=missing.idx"},
                1,
                "missing.idx cannot be opened (No such file or directory); check the file or fetch it "
                "again"}));

TEST(Program, ReportsAClosedStandardOutput) {
  // /dev/full refuses every write, as a full disk does.
  const TempDir dir;
  ASSERT_EQ(run_program(dir.path(), {"generate", "a.h5", "--samples", "4", "--shape", "1,8,8"}).exit_code, 0);
  const std::string command =
      "cd '" + dir.path().string() + "' && '" H5FEED_PROGRAM "' info a.h5 > /dev/full 2> err.txt";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

}  // namespace
}  // namespace h5feed::test
