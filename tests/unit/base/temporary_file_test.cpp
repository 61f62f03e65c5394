// SPDX-License-Identifier: Apache-2.0
// Temporary files beside an output: which of them the next process removes, and which it leaves alone.
#include "base/files/temporary_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/files/file_descriptor.hpp"
#include "base/files/new_file.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

/// A folder with an output "out.h5" and what was left beside it. What is made here was last written a minute
/// ago.
class TemporaryFile : public ::testing::Test {
 protected:
  fs::path target() const { return dir_ / "out.h5"; }

  static fs::path made(const fs::path& path) {
    std::ofstream(path) << "text";
    return aged(path);
  }
  static fs::path aged(const fs::path& path) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::minutes(1));
    return path;
  }
  fs::path left() const { return made(temporary_beside(target())); }

  std::vector<fs::path> rest() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(dir_.path())) all.push_back(entry.path());
    return all;
  }

  static FileDescriptor opened(const fs::path& path) {
    return FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  }

  const TempDir dir_;
};

TEST_F(TemporaryFile, of_a_long_name_has_a_shorter_one) {
  for (const std::string& character : {std::string("a"), std::string("\xC3\xA9")}) {  // an accented e
    for (std::size_t bytes = 230; bytes <= NAME_MAX; ++bytes) {
      std::string name = bytes % character.size() == 0 ? "" : "b";
      while (name.size() < bytes) name += character;
      const fs::path left = made(temporary_beside(dir_ / name));
      ASSERT_TRUE(fs::exists(left)) << bytes;
      const std::string shown = left.filename().string();
      const std::size_t end = shown.find(".tmp-");
      EXPECT_EQ((end - 1 - bytes % character.size()) % character.size(), 0U) << "cut within a character";
      remove_abandoned_temporaries(dir_ / name);
      EXPECT_THAT(rest(), IsEmpty()) << bytes;
    }
  }
}

TEST_F(TemporaryFile, that_was_left_is_removed) {
  left();
  left();
  remove_abandoned_temporaries(target());
  EXPECT_THAT(rest(), IsEmpty());
}

TEST_F(TemporaryFile, of_a_target_without_a_folder_is_that_of_the_current_one) {
  const fs::path here = fs::current_path();
  fs::current_path(dir_.path());
  made(temporary_beside("out.h5"));
  EXPECT_EQ(rest().size(), 1U);
  remove_abandoned_temporaries("out.h5");
  fs::current_path(here);
  EXPECT_THAT(rest(), IsEmpty());
}

TEST_F(TemporaryFile, stays_while_it_is_held) {
  const fs::path held = left();
  {
    const FileDescriptor fd = opened(held);
    hold_temporary(fd.get(), held);
    const FileDescriptor other = opened(held);  // closing it does not end the lock of the first
    EXPECT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), 0) << "libhdf5 locks the file as well";
  }
  {
    const FileDescriptor fd = opened(held);
    hold_temporary(fd.get(), held);
    opened(held).reset();
    remove_abandoned_temporaries(target());
    EXPECT_THAT(rest(), UnorderedElementsAre(held));
  }
  remove_abandoned_temporaries(target());
  EXPECT_THAT(rest(), IsEmpty());
}

TEST_F(TemporaryFile, stays_in_the_moment_of_its_creation) {
  const fs::path young = temporary_beside(target());
  std::ofstream(young) << "text";
  remove_abandoned_temporaries(target());
  EXPECT_THAT(rest(), UnorderedElementsAre(young));
}

TEST_F(TemporaryFile, leaves_what_only_has_its_name) {
  const fs::path of_another = made(temporary_beside(dir_ / "other.h5"));
  const fs::path too_short = made(dir_ / ".out.h5.tmp-0123456789a");
  const fs::path no_digits = made(dir_ / ".out.h5.tmp-0123456789ag");
  const fs::path output = made(target());
  const fs::path pointed_at = made(dir_ / "kept");
  const fs::path link = temporary_beside(target());
  fs::create_symlink(pointed_at, link);
  const fs::path folder = temporary_beside(target());
  fs::create_directory(folder);
  const fs::path pipe = temporary_beside(target());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  aged(pipe);
  remove_abandoned_temporaries(target());
  EXPECT_THAT(rest(),
              UnorderedElementsAre(of_another, too_short, no_digits, output, pointed_at, link, folder, pipe));
}

TEST_F(TemporaryFile, of_another_user_stays) {
  const fs::path theirs = left();
  if (::chown(theirs.c_str(), 1, 1) != 0) GTEST_SKIP() << "only root can make one";
  remove_abandoned_temporaries(target());
  EXPECT_THAT(rest(), UnorderedElementsAre(theirs));
}

TEST_F(TemporaryFile, of_text_is_held_and_the_next_of_its_target_removes_it) {
  left();
  NewFile file(target());
  ASSERT_EQ(rest().size(), 1U);
  const fs::path own = rest().front();
  fs::last_write_time(own, fs::file_time_type::clock::now() - std::chrono::minutes(1));
  remove_abandoned_temporaries(target());
  EXPECT_THAT(rest(), UnorderedElementsAre(own));
  EXPECT_FALSE(file.commit());
  EXPECT_THAT(rest(), UnorderedElementsAre(target()));
}

}  // namespace
}  // namespace h5feed::test
