// SPDX-License-Identifier: Apache-2.0
// What the commands refuse before they start: files that find no room, more threads and processes than the
// machine bears.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <vector>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"
#include "support/refusal.hpp"
#include "tools/program/memory_error.hpp"
#include "tools/program/run_bounds.hpp"
#include "tools/storage/free_space.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

/// The largest file that this process and those it starts may write, while in scope.
class ScopedFileLimit {
 public:
  explicit ScopedFileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ScopedFileLimit(const ScopedFileLimit&) = delete;
  ScopedFileLimit& operator=(const ScopedFileLimit&) = delete;
  ~ScopedFileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

class FreeSpace : public ::testing::Test {
 protected:
  // Runs a command that is to fail with one line, and to leave nothing behind.
  std::string refused(const std::vector<std::string>& arguments, int exit_code = 1) const {
    const std::vector<std::string> before = names_in(dir_.path());
    const ProgramResult result = run_program(dir_.path(), arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(names_in(dir_.path()), before);
    return result.err;
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ / name, std::ios::binary) << text;
  }
  // Takes no space: nothing of it is written.
  void make_sparse(const std::string& name, std::uint64_t bytes) const {
    std::ofstream(dir_ / name, std::ios::app);
    std::filesystem::resize_file(dir_ / name, bytes);
  }

  const TempDir dir_;
};

constexpr const char* kNoRoom = ".*are needed there, [^\n]* are free; free some or write elsewhere\n";

TEST_F(FreeSpace, generate_refuses_more_than_the_disk_has_before_it_writes) {
  const auto generate = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"generate", "out.h5", "--samples", "1000000000000"});
    return refused(options);
  };
  EXPECT_THAT(generate({"--chunk", "none"}), MatchesRegex(std::string("out.h5: 1369[0-9]+ TiB") + kNoRoom));
  EXPECT_THAT(generate({"--filter", "none"}), MatchesRegex(std::string("out.h5: ") + kNoRoom));
  EXPECT_THAT(generate({}), MatchesRegex(std::string("out.h5: about ") + kNoRoom)) << "compressed: estimated";
}

TEST_F(FreeSpace, generate_refuses_sizes_beyond_64_bits) {
  const auto generate = [&](const char* samples, const char* shape) {
    return refused({"generate", "out.h5", "--samples", samples, "--shape", shape, "--dtype", "f32"}, 2);
  };
  EXPECT_THAT(generate("1", "4611686018427387904"), HasSubstr("more than a file can hold"));
  EXPECT_THAT(generate("9223372036854775807", "3,224,224"), HasSubstr("more than a file can hold"));
}

TEST_F(FreeSpace, pack_refuses_more_than_the_disk_has_before_it_writes) {
  // A photograph of 4 TiB, 2,000 times; the same as pixels of 3 GiB each; and arrays of 4 TiB each.
  write("photo.png", "x");
  make_sparse("photo.png", 4096 * kGiB);
  std::string list;
  for (int i = 0; i < 2000; ++i) list += "photo.png,0\n";
  write("few.csv", list);
  for (int i = 0; i < 6; ++i) list += list;
  write("many.csv", list);
  EXPECT_THAT(refused({"pack", "out.h5", "--csv", "few.csv", "--store", "bytes"}),
              MatchesRegex(std::string("out.h5: about ") + kNoRoom));
#ifdef H5FEED_TEST_IMAGES
  EXPECT_THAT(refused({"pack", "out.h5", "--csv", "many.csv", "--size", "32768x32768", "--chunk", "1",
                       "--filter", "none"}),
              MatchesRegex(std::string("out.h5: ") + kNoRoom));
#endif

  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (4398046511104,), }";
  header.resize(117, ' ');
  write("big.npy", std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + '\n');
  make_sparse("big.npy", 128 + 4096 * kGiB);
  std::vector<std::string> arrays = {"pack", "out.h5", "--chunk", "none"};
  for (int i = 0; i < 100; ++i) arrays.insert(arrays.end(), {"--npy", "x" + std::to_string(i) + "=big.npy"});
  EXPECT_THAT(refused(arrays), MatchesRegex(std::string("out.h5: 400 TiB") + kNoRoom));
}

TEST_F(FreeSpace, every_command_respects_the_limit_of_a_file) {
  ASSERT_EQ(run_program(dir_.path(),
                        {"generate", "in.h5", "--samples", "6400", "--shape", "3,16,16", "--chunk", "64"})
                .exit_code,
            0);
  const ScopedFileLimit limit(2048 * kKiB);  // more than what is claimed to begin with
  // The refusal alone: nothing is announced that cannot be done.
  const auto too_large =
      MatchesRegex("[^\n]* are needed, and this process may write files of 2 MiB \\(ulimit -f\\)[^\n]*\n");
  EXPECT_THAT(refused({"generate", "out.h5", "--samples", "6400", "--shape", "3,16,16"}), too_large);
  EXPECT_THAT(refused({"repack", "in.h5", "out.h5", "--chunk", "10"}), too_large);
  EXPECT_THAT(refused({"repack", "in.h5", "out.h5", "--chunk", "10", "--resume"}), too_large);
  EXPECT_THAT(refused({"tune", "in.h5", "--scratch", "."}), too_large);
  const auto before = file_bytes(dir_ / "in.h5");
  EXPECT_THAT(refused({"info", "in.h5", "--stats", "--write-attributes"}), too_large);
  EXPECT_EQ(file_bytes(dir_ / "in.h5"), before);
}

TEST_F(FreeSpace, sums_and_sizes_stop_at_the_largest_number) {
  EXPECT_EQ(cli::saturating_sum(3, 4), 7U);
  EXPECT_EQ(cli::saturating_sum(~0ULL - 3, 4), ~0ULL);
  const NewDataset dataset{.path = "/x", .dtype = DType::f32, .shape = {7, 10}, .chunk_shape = {4, 10}};
  constexpr std::uint64_t kIndexBytes = 2 * 48;  // an entry for each of the two chunks
  EXPECT_EQ(cli::stored_bytes_of(dataset, 1), 8U * 10 * 4 + kIndexBytes) << "chunks are stored whole";
  EXPECT_EQ(cli::stored_bytes_of(dataset, 0.5), 4U * 10 * 4 + kIndexBytes);
  const NewDataset huge{.path = "/x", .dtype = DType::f64, .shape = {~0ULL >> 1U, 4}};
  EXPECT_EQ(cli::stored_bytes_of(huge, 1), ~0ULL);
  EXPECT_THROW(cli::require_free_space(dir_ / "x", cli::one_file(~0ULL, false)), FileError);
  cli::require_free_space(dir_ / "x", cli::one_file(1, false));
}

TEST(MemoryError, names_file_and_dataset) {
  const auto told = [](const std::string& dataset) {
    return refusal_of<Error>(
        [&] { cli::name_where_memory_ends("a.h5", dataset, []() -> int { throw std::bad_alloc(); }); });
  };
  EXPECT_EQ(told("/x"),
            "a.h5:/x: there is not enough memory to read it; close other programs, or store it in fewer "
            "chunks with h5feed repack");
  EXPECT_THAT(told(""), ::testing::StartsWith("a.h5: there"));
}

TEST_F(FreeSpace, bench_names_the_dataset_whose_chunks_no_memory_can_hold) {
  H5TestFile(dir_ / "a.h5").create({.path = "x", .shape = {1ULL << 50, 4}, .chunk = {1, 4}});
  EXPECT_THAT(refused({"bench", "a.h5", "--data", "x", "--num-workers", "0"}, 2),
              ::testing::HasSubstr(" + tables of the 1,125,899,906,842,624 chunks of a.h5:/x (8192 TiB) + "));
}

TEST(RunBounds, follow_cores_and_memory) {
  const SystemLimits small{.cpus = 1, .available_bytes = 4 * kGiB};
  const SystemLimits large{.cpus = 96, .available_bytes = 1024 * kGiB};
  EXPECT_EQ(cli::most_threads(small), 64U);
  EXPECT_EQ(cli::most_threads(large), 1024U);
  EXPECT_EQ(cli::most_processes(small, kMiB), 8U);
  EXPECT_EQ(cli::most_processes(small, kGiB), 4U) << "memory for more is not there";
  EXPECT_EQ(cli::most_processes(small, 8 * kGiB), 1U) << "one may always try";
  EXPECT_EQ(cli::most_processes(large, kGiB), 384U);
  EXPECT_EQ(refusal_of<OptionError>([&] { cli::check_processes("--world-size", 5000, kGiB, small); }),
            "--world-size 5000: too many processes for this machine (1 usable core, 4 GiB of memory "
            "available, about "
            "1 GiB for each process); give at most 4");
  EXPECT_EQ(cli::parse_jobs("", large), 96U);
  EXPECT_EQ(cli::parse_jobs("64", small), 64U);
  EXPECT_EQ(refusal_of<OptionError>([&] { cli::parse_jobs("100000", small); }),
            "--jobs 100000: too many threads for this machine (1 usable core); give at most 64");
  for (const std::string text : {"9223372036854775808", "18446744073709551616", "99999999999999999999999"}) {
    EXPECT_EQ(refusal_of<OptionError>([&] { cli::parse_jobs(text, small); }),
              "--jobs " + text + ": too many threads for this machine (1 usable core); give at most 64");
  }
  EXPECT_EQ(refusal_of<OptionError>([&] { cli::parse_jobs("-1", small); }),
            "--jobs \"-1\": give a whole number from 1 on");
}

}  // namespace
}  // namespace h5feed::test
