// SPDX-License-Identifier: Apache-2.0
// Sizes in bytes, the limits of the machine as a container sees it, and what messages have in common.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_units.hpp"
#include "base/option_spelling.hpp"
#include "base/system_limits.hpp"
#include "base/terminal_text.hpp"
#include "h5feed/dtype.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"

namespace h5feed::test {
namespace {

namespace fs = std::filesystem;

TEST(ByteUnits, parses_what_people_write) {
  EXPECT_EQ(parse_bytes("4096"), 4096u);
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("512KiB"), 512u * 1024);
  EXPECT_EQ(parse_bytes("128 MiB"), 128u * 1024 * 1024);
  EXPECT_EQ(parse_bytes("1.5GiB"), 1536u * 1024 * 1024);
  EXPECT_EQ(parse_bytes("2GB"), 2'000'000'000u);
}

TEST(ByteUnits, refuses_what_is_not_a_size) {
  for (const char* text :
       {"", "MiB", "-1", "-1MiB", "12 apples", "1e300", "nan", "99999999999999GiB", "1 MiB x"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
  }
}

TEST(ByteUnits, prints_the_largest_fitting_unit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(27 * kKiB), "27 KiB");
  EXPECT_EQ(format_bytes(3ull * 512 * 116412), "171 MiB");
  EXPECT_EQ(format_bytes(kGiB + kGiB / 8), "1.1 GiB");
  EXPECT_EQ(format_bytes(2 * kGiB), "2 GiB");
  EXPECT_EQ(format_bytes(3000 * kGiB), "2.9 TiB");
}

TEST(ByteUnits, rounds_figures_to_type_back_up) {
  EXPECT_EQ(format_bytes_ceil(kMiB), "1 MiB");
  EXPECT_EQ(format_bytes_ceil(kMiB + 1), "2 MiB");
  EXPECT_EQ(format_bytes_ceil(kGiB + kGiB / 20), "1.1 GiB");
  for (const std::uint64_t bytes : {kMiB + 1, 3 * kGiB + 12345, 700 * kGiB + 1}) {
    EXPECT_GE(parse_bytes(format_bytes_ceil(bytes)), bytes);
  }
  EXPECT_EQ(format_count(116412), "116,412");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
}

TEST(Abridged, keeps_both_ends_of_a_long_text) {
  EXPECT_EQ(abridged("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(abridged("abcdefghij", 5), "ab…ij");
  EXPECT_EQ(abridged("\u00E4\u00F6\u00FC\u00E4\u00F6\u00FC", 4), "\u00E4…\u00F6\u00FC");
  EXPECT_EQ(abridged("\xFF\xFF\xFF\xFF", 3), "\xFF…\xFF") << "bytes that are not UTF-8 stay";
  EXPECT_EQ(abridged(std::string(100, 'x')), std::string(100, 'x'));
  EXPECT_EQ(abridged(std::string(100'000, 'x')), std::string(49, 'x') + "…" + std::string(50, 'x'));
}

TEST(Error, keeps_its_message_on_one_line) {
  EXPECT_STREQ(FileError("a\nb\x1b[1mc.h5").what(), "a\\nb\\x1b[1mc.h5");
}

TEST(Error, has_no_characters_that_control_a_terminal_or_turn_text) {
  EXPECT_STREQ(FileError("a\u009B1m\u202Eb\u2066\u200F\u061C.h5").what(),
               "a\\u009b1m\\u202eb\\u2066\\u200f\\u061c.h5");
  EXPECT_STREQ(FileError("caf\u00E9 \xE9 \U0001F642").what(), "caf\u00E9 \xE9 \U0001F642")
      << "names of files need not be UTF-8";
}

TEST(DTypeNames, round_trip_and_accept_numpy_names) {
  for (const DType dtype : {DType::u8, DType::i8, DType::u16, DType::i16, DType::u32, DType::i32, DType::u64,
                            DType::i64, DType::f16, DType::f32, DType::f64, DType::bf16}) {
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  }
  EXPECT_EQ(dtype_from_name("float32"), DType::f32);
  EXPECT_EQ(dtype_from_name("complex64"), std::nullopt);
}

TEST(Log, sends_lines_to_the_sink_that_is_set) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel level, std::string_view line) {
    lines.push_back((level == LogLevel::warning ? "W " : "I ") + std::string(line));
  });
  log(LogLevel::warning, "one {} two");
  log(LogLevel::info, "three");
  log(LogLevel::info, "fo\x1b[31m\nur");
  set_log_sink({});
  EXPECT_EQ(lines, (std::vector<std::string>{"W one {} two", "I three", "I fo\\x1b[31m\\nur"}));
}

TEST(Log, ignores_what_the_sink_throws) {
  int lines = 0;
  set_log_sink([&](LogLevel, std::string_view) {
    ++lines;
    throw std::runtime_error("the disk of the log is full");
  });
  EXPECT_NO_THROW(log(LogLevel::warning, "one"));
  EXPECT_NO_THROW(log_once(LogLevel::info, "two"));
  set_log_sink({});
  EXPECT_EQ(lines, 2);
}

/// A directory that stands for "/", with a generous host.
class FakeRoot {
 public:
  FakeRoot() : path_(fs::path(testing::TempDir()) / ("h5feed_root_" + unique_name())) {
    fs::remove_all(path_);
    write("proc/meminfo", "MemTotal: 64000000 kB\nMemAvailable:   33554432 kB\n");
  }
  ~FakeRoot() { fs::remove_all(path_); }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  const fs::path& path() const { return path_; }

 private:
  static std::string unique_name() { return testing::UnitTest::GetInstance()->current_test_info()->name(); }
  fs::path path_;
};

TEST(SystemLimits, are_the_hosts_without_a_container) {
  const FakeRoot root;
  const SystemLimits limits = system_limits(root.path());
  EXPECT_EQ(limits.available_bytes, 32 * kGiB);
  EXPECT_EQ(limits.memory_bound_by, "host");
  EXPECT_GE(limits.cpus, 1u);
  EXPECT_TRUE(limits.cpus_bound_by == "host" || limits.cpus_bound_by == "affinity") << limits.cpus_bound_by;
}

TEST(SystemLimits, tell_how_much_memory_may_be_locked) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit lower = before;
  lower.rlim_cur = 64 * 1024;
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &lower), 0);
  EXPECT_EQ(system_limits().lockable_bytes, 64u * 1024);
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

TEST(SystemLimits, follow_a_cgroup_v2_quota_and_memory_limit) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "0::/job/step\n");
  root.write("sys/fs/cgroup/job/cpu.max", "50000 100000\n");
  root.write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/job/memory.max", std::to_string(2 * kGiB));
  root.write("sys/fs/cgroup/job/memory.current", std::to_string(kGiB));
  root.write("sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file " + std::to_string(kGiB / 2) + "\n");
  root.write("sys/fs/cgroup/job/step/memory.max", "max\n");
  const SystemLimits limits = system_limits(root.path());
  EXPECT_EQ(limits.cpus, 1u);  // half a CPU still runs one thread
  EXPECT_EQ(limits.cpus_bound_by, "cgroup cpu quota");
  EXPECT_EQ(limits.available_bytes, kGiB + kGiB / 2);
  EXPECT_EQ(limits.memory_bound_by, "cgroup memory");
}

TEST(SystemLimits, follow_a_cgroup_v1_quota_and_memory_limit) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n");
  // Inside the container the group's own directory is the mount.
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(3 * kGiB));
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(kGiB));
  const SystemLimits limits = system_limits(root.path());
  EXPECT_EQ(limits.cpus, 1u);
  EXPECT_EQ(limits.available_bytes, 2 * kGiB);
  EXPECT_EQ(limits.memory_bound_by, "cgroup memory");
}

TEST(SystemLimits, survive_files_that_make_no_sense) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "garbage\n0::\n");
  root.write("sys/fs/cgroup/cpu.max", "-5 0\n");
  root.write("sys/fs/cgroup/memory.max", "99999999999999999999999999\n");
  const SystemLimits limits = system_limits(root.path());
  EXPECT_GE(limits.cpus, 1u);
  EXPECT_EQ(limits.available_bytes, 32 * kGiB);
}

std::optional<std::string> as_the_program_spells(std::string_view name) {
  if (name != "data" && name != "input_layout") return std::nullopt;
  return name == "data" ? "--data" : "--input-layout";
}

TEST(OptionSpelling, is_that_of_cpp_unless_a_program_installs_its_own) {
  const PathOption of_field{.owner = "field \"depth\""};
  EXPECT_EQ(PathOption{}.spelled("images"), ".data = \"images\"");
  EXPECT_EQ(spelled("input_layout", "NCHW"), "input_layout = NCHW");
  EXPECT_EQ(spelled("input_layout"), "input_layout");
  EXPECT_TRUE(can_be_set("io_depth"));
  spell_options(as_the_program_spells);
  EXPECT_EQ(PathOption{}.spelled("images"), "--data images");
  EXPECT_EQ(spelled("input_layout", "NCHW"), "--input-layout NCHW");
  EXPECT_EQ(spelled("input_layout"), "--input-layout");
  EXPECT_EQ(spelled("io_depth", "4"), "io_depth = 4") << "the program has no such option";
  EXPECT_FALSE(can_be_set("io_depth"));
  EXPECT_TRUE(can_be_set("data"));
  EXPECT_EQ(of_field.spelled("x"), "field \"depth\": .data = \"x\"") << "nor those of fields";
  spell_options(nullptr);
  EXPECT_EQ(PathOption{}.spelled("images"), ".data = \"images\"");
}

TEST(Log, once_says_a_line_once_to_each_sink) {
  std::vector<std::string> lines;
  const auto sink = [&lines](LogLevel, std::string_view line) { lines.emplace_back(line); };
  set_log_sink(sink);
  log_once(LogLevel::warning, "a");
  log_once(LogLevel::warning, "a");
  log_once(LogLevel::warning, "b");
  EXPECT_EQ(lines, (std::vector<std::string>{"a", "b"}));
  set_log_sink(sink);
  log_once(LogLevel::warning, "a");
  EXPECT_EQ(lines.size(), 3u);
  set_log_sink({});
}

}  // namespace
}  // namespace h5feed::test
