// SPDX-License-Identifier: Apache-2.0
// Copies of files in a local directory: made once, checked, and never taken for whole when they are not.
#include "store/stage/stage_dir.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "store/stage/checked_copy.hpp"
#include "support/captured_log.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class StageDirTest : public testing::Test {
 protected:
  StageDirTest() {
    fs::create_directory(local());
    write("a.h5", 100'000, 1);
  }

  fs::path local() const { return dir_ / "local"; }
  fs::path folder() const { return local() / ("h5feed-" + std::to_string(::geteuid())); }
  fs::path source(const std::string& name) const { return dir_ / name; }

  void write(const std::string& name, std::size_t bytes, unsigned seed) const {
    replace_file(source(name), random_bytes(bytes, seed));
  }

  // Stages one file; the lines that this logs are in `lines_`.
  fs::path stage(const fs::path& file) {
    CapturedLog log;
    StageDir stage_dir(local());
    const fs::path copy = stage_dir.copies_of({&file, 1}).front();
    lines_ = log.lines();
    return copy;
  }

  bool copies(const std::string& name) {
    const fs::path copy = stage(source(name));
    EXPECT_EQ(file_bytes(copy), file_bytes(source(name)));
    return !lines_.empty();
  }

  std::string refusal(const fs::path& directory, const std::function<void(StageDir&)>& prepare = {},
                      StorageProbe probe = {}) const {
    return refusal_in<FileError>(dir_.path(), [&] {
      StageDir stage_dir(directory, std::move(probe));
      if (prepare) prepare(stage_dir);
      const std::vector<fs::path> files = {source("a.h5")};
      stage_dir.copies_of(files);
    });
  }

  // For a process of its own: returns how often it copied, or 100 if it failed.
  int copied_by_child(const std::vector<fs::path>& files) const noexcept try {
    int copied = 0;
    set_log_sink([&](LogLevel, std::string_view line) { copied += line.starts_with("stage_dir: copying"); });
    const std::vector<fs::path> places = StageDir(local()).copies_of(files);
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (file_bytes(places[i]) != file_bytes(files[i])) return 100;
    }
    return copied;
  } catch (const std::exception&) {
    return 100;
  }

  // Names of the files in the folder, apart from the lock.
  std::vector<std::string> listed() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder())) {
      if (entry.path().filename() != "lock") names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

  TempDir dir_;
  std::vector<std::string> lines_;
};

TEST_F(StageDirTest, copies_a_file_once) {
  EXPECT_TRUE(copies("a.h5"));
  EXPECT_THAT(lines_,
              ElementsAre(StartsWith("stage_dir: copying " + source("a.h5").string() + ", 98 KiB, from "),
                          StartsWith("stage_dir: copied " + source("a.h5").string() + ", 98 KiB, in ")));
  EXPECT_FALSE(copies("a.h5"));
  const std::string name = stage(source("a.h5")).filename().string();
  EXPECT_THAT(name, testing::MatchesRegex("[0-9a-f]+-a.h5"));
  EXPECT_THAT(listed(), ElementsAre(name, name + ".stage"));
}

TEST_F(StageDirTest, copies_files_of_any_size) {
  for (const std::size_t bytes : {0UL, 1UL, 4UL * kMiB, 4UL * kMiB + 1, 21UL * kMiB - 7}) {
    write("b.h5", bytes, 2);
    EXPECT_TRUE(copies("b.h5")) << bytes;
    EXPECT_FALSE(copies("b.h5")) << bytes;
  }
}

TEST_F(StageDirTest, only_the_owner_may_read_the_copies) {
  stage(source("a.h5"));
  struct stat status = {};
  ASSERT_EQ(::stat(folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  ASSERT_EQ(::stat(stage(source("a.h5")).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(StageDirTest, copies_again_what_has_changed) {
  stage(source("a.h5"));
  write("a.h5", 100'000, 2);
  EXPECT_TRUE(copies("a.h5"));
  write("a.h5", 100'001, 2);
  EXPECT_TRUE(copies("a.h5"));
  // Another file of the same size and time under the same name.
  const auto time = fs::last_write_time(source("a.h5"));
  write("b.h5", 100'001, 3);
  fs::rename(source("b.h5"), source("a.h5"));
  fs::last_write_time(source("a.h5"), time);
  EXPECT_TRUE(copies("a.h5"));
  EXPECT_FALSE(copies("a.h5"));
  EXPECT_EQ(listed().size(), 2);
}

TEST_F(StageDirTest, does_not_use_a_damaged_copy) {
  const fs::path copy = stage(source("a.h5"));
  fs::resize_file(copy, 99'999);
  EXPECT_TRUE(copies("a.h5"));
  replace_file(copy, random_bytes(100'000, 9));
  EXPECT_TRUE(copies("a.h5"));
  fs::remove(copy);
  EXPECT_TRUE(copies("a.h5"));
  fs::remove(copy.string() + ".stage");
  EXPECT_TRUE(copies("a.h5"));
  fs::resize_file(copy.string() + ".stage", 40);
  EXPECT_TRUE(copies("a.h5"));
  fs::remove(copy);
  fs::create_symlink(source("a.h5"), copy);
  EXPECT_TRUE(copies("a.h5"));
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(copy)));
  EXPECT_FALSE(copies("a.h5"));
}

TEST_F(StageDirTest, a_copy_that_was_killed_is_made_again) {
  const std::vector<fs::path> files = {source("a.h5")};
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    StageDir stage_dir(local());
    stage_dir.before_compare = [](const fs::path&) { ::kill(::getpid(), SIGKILL); };
    stage_dir.copies_of(files);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(listed(), ElementsAre(testing::EndsWith("-a.h5.part")));
  EXPECT_TRUE(copies("a.h5"));
  EXPECT_EQ(listed().size(), 2);
}

TEST_F(StageDirTest, processes_that_need_the_same_files_copy_them_once) {
  write("b.h5", 9 * kMiB, 5);
  const std::vector<fs::path> files = {source("a.h5"), source("b.h5")};
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::_exit(copied_by_child(files));
    }
    children.push_back(child);
  }
  int copied = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    copied += WEXITSTATUS(status);
  }
  EXPECT_EQ(copied, 1);
}

TEST_F(StageDirTest, names_of_one_file_share_a_copy) {
  fs::create_symlink("a.h5", source("link.h5"));
  fs::create_directory(dir_ / "other");
  replace_file(dir_ / "other" / "a.h5", random_bytes(50, 4));
  CapturedLog log;
  StageDir stage_dir(local());
  const std::vector<fs::path> files = {source("a.h5"), source("link.h5"), source("other/a.h5"),
                                       source("a.h5")};
  const std::vector<fs::path> places = stage_dir.copies_of(files);
  EXPECT_EQ(places[0], places[1]);
  EXPECT_NE(places[0], places[2]);
  EXPECT_EQ(places[0], places[3]);
  for (std::size_t i = 0; i < files.size(); ++i) EXPECT_EQ(file_bytes(places[i]), file_bytes(files[i]));
  EXPECT_THAT(log.lines(), ElementsAre(StartsWith("stage_dir: copying 2 files, "), testing::_));
}

TEST_F(StageDirTest, reads_a_source_that_cannot_be_written) {
  fs::create_directory(dir_ / "fixed");
  fs::rename(source("a.h5"), source("fixed/a.h5"));
  fs::permissions(source("fixed/a.h5"), fs::perms::owner_read);
  fs::permissions(source("fixed"), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_TRUE(copies("fixed/a.h5"));
  EXPECT_FALSE(copies("fixed/a.h5"));
  fs::permissions(source("fixed"), fs::perms::owner_all);
}

TEST_F(StageDirTest, a_source_that_changes_once_is_copied_again) {
  int changes = 0;
  CapturedLog log;
  StageDir stage_dir(local());
  stage_dir.before_compare = [&](const fs::path&) {
    if (changes++ == 0) write("a.h5", 120'000, 6);
  };
  const std::vector<fs::path> files = {source("a.h5")};
  const fs::path copy = stage_dir.copies_of(files).front();
  EXPECT_EQ(file_bytes(copy), file_bytes(source("a.h5")));
  EXPECT_EQ(changes, 2);
  EXPECT_FALSE(copies("a.h5"));
}

TEST_F(StageDirTest, refuses_a_source_that_keeps_changing) {
  unsigned changes = 0;
  const std::string text = refusal(local(), [&](StageDir& stage_dir) {
    stage_dir.before_compare = [&](const fs::path&) {
      ++changes;
      write("a.h5", 100'000 + changes, changes);
    };
  });
  EXPECT_EQ(text,
            "a.h5: changes while it is copied to stage_dir; wait until its writer has closed it, or leave "
            "stage_dir unset");
  EXPECT_EQ(changes, 3);
  EXPECT_THAT(listed(), IsEmpty());
}

TEST_F(StageDirTest, compares_what_was_stored_with_what_was_read) {
  write("a.h5", 6 * kMiB, 1);
  const std::string text = refusal(local(), [&](StageDir& stage_dir) {
    stage_dir.before_compare = [](const fs::path& copy) {
      std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(5 * kMiB);
      file.put('x').put('y').put('z');
    };
  });
  EXPECT_THAT(text,
              HasSubstr("bytes 4194304 to 6291456 differ from what was written; check the disk, or name "
                        "another directory"));
  EXPECT_THAT(listed(), IsEmpty());
}

TEST_F(StageDirTest, refuses_files_for_which_there_is_no_space_before_it_copies) {
  write("a.h5", 2 * kMiB, 1);
  StorageProbe probe{.statfs = [](const char*, struct ::statfs* into) {
    into->f_type = 0x01021994;
    into->f_bsize = 4096;
    into->f_blocks = 5120;  // 20 MiB
    into->f_bavail = 767;   // 3 MiB less a block: the copy, and a twentieth that stays free, need one more
    return 0;
  }};
  EXPECT_EQ(
      refusal(local(), {}, probe),
      "stage_dir: local has 3 MiB free, of which 1 MiB stay free; the copy of a.h5 needs 2 MiB; free some "
      "space, name another directory, or leave stage_dir unset");
  EXPECT_THAT(listed(), IsEmpty());
  probe.statfs = [](const char*, struct ::statfs* into) {
    into->f_type = 0x01021994;
    into->f_bsize = 4096;
    into->f_blocks = 5120;
    into->f_bavail = 768;
    return 0;
  };
  EXPECT_EQ(refusal(local(), {}, probe), "accepted");
}

TEST_F(StageDirTest, warns_of_a_directory_that_is_on_a_network_itself) {
  CapturedLog log;
  const StorageProbe probe{.statfs = [](const char*, struct ::statfs* into) {
    into->f_type = 0x6969;
    into->f_bsize = 4096;
    into->f_blocks = into->f_bavail = 5120;
    return 0;
  }};
  EXPECT_EQ(refusal(local(), {}, probe), "accepted");
  EXPECT_THAT(log.lines(),
              testing::Contains("stage_dir: " + local().string() +
                                " is itself on nfs, a network file system; name a directory on a "
                                "local disk"));
}

TEST_F(StageDirTest, names_the_file_that_the_disk_refuses) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 10'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string text = refusal(local());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(text, testing::MatchesRegex("stage_dir: local/h5feed-[0-9]+/[0-9a-f]+-a.h5.part cannot be "
                                          "written: File too large; name another directory"));
  EXPECT_THAT(listed(), IsEmpty());
}

TEST_F(StageDirTest, refuses_directories_that_cannot_hold_copies) {
  EXPECT_EQ(refusal(dir_ / "none"),
            "stage_dir: none does not exist; create it, or name another directory on a local disk");
  EXPECT_EQ(refusal(source("a.h5")),
            "stage_dir: a.h5 is not a directory; create it, or name another directory on a local disk");
  EXPECT_THAT(refusal("/proc"), StartsWith("stage_dir: /proc cannot be written: "));
  fs::create_directory(dir_ / "trap");
  fs::create_directory(dir_ / "elsewhere");
  fs::create_symlink(dir_ / "elsewhere", dir_ / "trap" / folder().filename());
  EXPECT_EQ(refusal(dir_ / "trap"), "stage_dir: trap/" + folder().filename().string() +
                                        " is not a directory of this user; name another directory");
  fs::remove(source("a.h5"));
  EXPECT_EQ(refusal(local()), "a.h5: no such file; check the path");
}

}  // namespace
}  // namespace h5feed::test
