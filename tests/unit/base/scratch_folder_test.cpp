// SPDX-License-Identifier: Apache-2.0
// Temporary folders: which of them the next process removes, and which it leaves alone.
#include "base/files/scratch_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "h5feed/error.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(folder)) all.push_back(entry.path());
  return all;
}

void write(const fs::path& path) { std::ofstream(path) << "text"; }

/// A process with a scratch folder, which holds a file and a folder with another one. It ends by SIGKILL.
class Owner {
 public:
  explicit Owner(const fs::path& parent) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      const ScratchFolder folder(parent, "test");
      write(folder.path() / "file");
      fs::create_directory(folder.path() / "inner");
      write(folder.path() / "inner" / ".file");
      if (::write(ends[1], "r", 1) != 1) ::_exit(1);
      ::alarm(60);
      while (true) ::pause();
    }
    char ready = 0;
    if (::read(ends[0], &ready, 1) != 1) std::abort();
    for (const int end : ends) ::close(end);
  }
  ~Owner() { kill(); }

  void kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

/// Leaves a scratch folder of a process that was killed, and returns its path.
fs::path abandoned(const fs::path& parent) {
  Owner(parent).kill();
  return entries_of(parent).front();
}

TEST(ScratchFolder, is_for_its_user_alone_and_goes_with_all_that_it_holds) {
  const TempDir dir;
  {
    const ScratchFolder folder(dir.path(), "test");
    EXPECT_TRUE(folder.path().is_absolute());
    EXPECT_EQ(folder.path().filename().string().size(), std::string("test-XXXXXX").size());
    EXPECT_EQ(fs::status(folder.path()).permissions(), fs::perms::owner_all);
    write(folder.path() / "file");
    fs::create_directories(folder.path() / "a" / "b");
    write(folder.path() / "a" / "b" / "file");
    const TempDir elsewhere;
    write(elsewhere / "kept");
    fs::create_directory_symlink(elsewhere.path(), folder.path() / "link");
    EXPECT_THAT(entries_of(dir.path()), ElementsAre(folder.path()));
  }
  EXPECT_THAT(entries_of(dir.path()), IsEmpty());
}

TEST(ScratchFolder, of_a_process_that_was_killed_is_removed_by_the_next_of_its_name) {
  const TempDir dir;
  const fs::path left = abandoned(dir.path());
  { const ScratchFolder other(dir.path(), "tes"); }
  { const ScratchFolder other(dir.path(), "tests"); }
  EXPECT_THAT(entries_of(dir.path()), ElementsAre(left));
  const ScratchFolder next(dir.path(), "test");
  EXPECT_THAT(entries_of(dir.path()), ElementsAre(next.path()));
}

TEST(ScratchFolder, of_a_process_that_lives_stays) {
  const TempDir dir;
  Owner owner(dir.path());
  const fs::path theirs = entries_of(dir.path()).front();
  const ScratchFolder first(dir.path(), "test"), second(dir.path(), "test");
  EXPECT_THAT(entries_of(dir.path()), UnorderedElementsAre(theirs, first.path(), second.path()));
  EXPECT_TRUE(fs::exists(theirs / "inner" / ".file"));
  owner.kill();
  const ScratchFolder third(dir.path(), "test");
  EXPECT_THAT(entries_of(dir.path()), UnorderedElementsAre(first.path(), second.path(), third.path()));
}

// Expects that the next scratch folder in `dir` leaves the path that `make` makes and returns.
void expect_left(const TempDir& dir, const std::string& why, const std::function<fs::path()>& make) {
  SCOPED_TRACE(why);
  const fs::path path = make();
  { const ScratchFolder next(dir.path(), "test"); }
  EXPECT_TRUE(fs::exists(path));
  fs::remove_all(dir / "test-result");
}

TEST(ScratchFolder, leaves_what_only_has_its_name) {
  const TempDir dir, elsewhere;
  const auto stays = [&](const std::string& why, const std::function<fs::path()>& make) {
    expect_left(dir, why, make);
  };
  const fs::path place = dir / "test-result";  // as long as a random name
  stays("a folder of the user's without a lock", [&] {
    fs::create_directory(place);
    fs::permissions(place, fs::perms::owner_all);
    write(place / "file");
    return place / "file";
  });
  stays("an empty one", [&] {
    fs::create_directory(place);
    fs::permissions(place, fs::perms::owner_all);
    return place;
  });
  stays("a folder that others may enter", [&] {
    fs::rename(abandoned(dir.path()), place);
    fs::permissions(place, fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec);
    return place / "file";
  });
  stays("another length", [&] {
    fs::rename(abandoned(dir.path()), dir / "test-results");
    return dir / "test-results" / "file";
  });
  fs::remove_all(dir / "test-results");
  stays("a link to a folder", [&] {
    fs::create_directory_symlink(abandoned(elsewhere.path()), place);
    return place / "file";
  });
  stays("a file", [&] {
    write(place);
    return place;
  });
  stays("a lock that is a link", [&] {
    fs::rename(abandoned(dir.path()), place);
    write(elsewhere / "file");
    fs::remove(place / ".h5feed-scratch");
    fs::create_symlink(elsewhere / "file", place / ".h5feed-scratch");
    return place / "file";
  });
}

TEST(ScratchFolder, leaves_a_folder_of_another_user) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  const TempDir dir;
  const fs::path place = dir / "test-result";
  expect_left(dir, "a folder of another user", [&] {
    fs::rename(abandoned(dir.path()), place);
    EXPECT_EQ(::chown(place.c_str(), 12345, 12345), 0);
    return place / "file";
  });
}

TEST(ScratchFolder, names_the_place_where_it_cannot_be) {
  const TempDir dir;
  write(dir / "file");
  EXPECT_EQ(refusal_of<FileError>([&] { ScratchFolder(dir / "none", "test"); }),
            (dir / "none").string() + ": cannot be written: No such file or directory");
  EXPECT_EQ(refusal_of<FileError>([&] { ScratchFolder(dir / "file", "test"); }),
            (dir / "file").string() + ": cannot be written: Not a directory");
}

}  // namespace
}  // namespace h5feed::test
