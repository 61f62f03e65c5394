// SPDX-License-Identifier: Apache-2.0
// Which processes belong to a tree, and how the texts of /proc are read.
#include "tools/program/process_tree.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/files/temp_dir.hpp"
#include "support/wait_until.hpp"

namespace h5feed::test {
namespace {

using cli::ProcessTree;

/// A process that starts others when it is told to. Its children are not waited for, leave no zombies and end
/// with it: one that lived on would hold the output of the test open, which ctest waits for.
class Parent {
 public:
  Parent() {
    if (::pipe(to_.data()) != 0 || ::pipe(from_.data()) != 0) std::abort();
    const pid_t test = ::getpid();
    pid_ = ::fork();
    if (pid_ != 0) return;
    const pid_t self = ::getpid();
    end_with(test);
    ::prctl(PR_SET_NAME, "a) b (c");
    ::signal(SIGCHLD, SIG_IGN);
    answer(0);
    for (char order = 0; ::read(to_[0], &order, 1) == 1;) {
      const pid_t child = ::fork();
      if (child != 0 && order == 'c') answer(child);
      if (child != 0) continue;
      if (order == 'c') end_with(self);
      const pid_t grandchild = order == 'g' ? ::fork() : 0;
      if (grandchild != 0) answer(grandchild);
      ::alarm(60);
      while (true) ::pause();
    }
    ::_exit(0);
  }
  ~Parent() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    for (const int end : {to_[0], to_[1], from_[0], from_[1]}) ::close(end);
  }

  pid_t pid() const { return pid_; }
  /// Returns the number of a new child.
  pid_t child() { return asked('c'); }
  /// Returns the number of a new child of a new child.
  pid_t grandchild() { return asked('g'); }
  /// Waits until the process runs; call once.
  void wait() { answered(); }

 private:
  // Has this process end with its parent, or at once if that has ended before.
  static void end_with(pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
  }
  pid_t asked(char order) {
    if (::write(to_[1], &order, 1) != 1) return -1;
    return answered();
  }
  pid_t answered() {
    pid_t pid = -1;
    return ::read(from_[0], &pid, sizeof pid) == sizeof pid ? pid : -1;
  }
  void answer(pid_t pid) {
    if (::write(from_[1], &pid, sizeof pid) != sizeof pid) ::_exit(1);
  }

  std::array<int, 2> to_{}, from_{};
  pid_t pid_ = -1;
};

std::uint64_t started(pid_t pid) { return cli::process_stat(pid)->started; }

TEST(ProcessTree, has_the_descendants_that_start_between_readings_and_no_others) {
  Parent root, other;
  root.wait();
  other.wait();
  ProcessTree tree(root.pid(), started(root.pid()));
  EXPECT_EQ(tree.read().processes, 1U);
  EXPECT_EQ(tree.read().processes, 1U);
  const pid_t first = root.child();
  other.child();
  EXPECT_EQ(tree.read().processes, 2U);
  const pid_t second = root.child();
  EXPECT_EQ(tree.read().processes, 3U);
  for (const pid_t pid : {first, second}) ::kill(pid, SIGKILL);
  ASSERT_TRUE(wait_until([&] { return !cli::process_stat(first) && !cli::process_stat(second); }));
  EXPECT_EQ(tree.read().processes, 1U);
}

TEST(ProcessTree, keeps_a_descendant_whose_parent_has_ended) {
  Parent root;
  root.wait();
  ProcessTree tree(root.pid(), started(root.pid()));
  const pid_t grandchild = root.grandchild();
  EXPECT_EQ(tree.read().processes, 3U);
  const pid_t child = cli::process_stat(grandchild)->parent;
  EXPECT_EQ(cli::process_stat(child)->parent, root.pid());
  ::kill(child, SIGKILL);
  ASSERT_TRUE(wait_until([&] { return !cli::process_stat(child); }));
  EXPECT_EQ(tree.read().processes, 2U);
  EXPECT_EQ(tree.read().processes, 2U);
  tree.send(SIGKILL);
}

TEST(ProcessTree, leaves_a_process_alone_that_has_the_number_of_an_ended_root) {
  Parent later;
  later.wait();
  const pid_t child = later.child();
  ProcessTree tree(later.pid(), started(later.pid()) - 1);
  EXPECT_EQ(tree.read().processes, 0U);
  tree.send(SIGKILL);
  EXPECT_GT(later.child(), 0) << "it lives";
  EXPECT_TRUE(cli::process_stat(child));
  EXPECT_EQ(tree.read().processes, 0U);
}

TEST(ProcessStat, has_names_with_any_characters) {
  Parent named;
  named.wait();
  const auto stat = cli::process_stat(named.pid());
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->name, "a) b (c");
  EXPECT_EQ(stat->parent, ::getpid());
  EXPECT_GT(stat->rss_bytes, 0U);
  EXPECT_GT(stat->started, 0U);
  EXPECT_FALSE(cli::process_stat(INT32_MAX));
}

TEST(ProcText, is_read_whole_or_in_part_and_split_into_lines_and_words) {
  const TempDir dir;
  EXPECT_EQ(cli::read_proc_text(dir / "none"), "");
  EXPECT_EQ(cli::read_proc_text(dir.path()), "");
  const std::string text = "a:  12 -3\t4.5x\n\nlast" + std::string(20'000, '9');
  std::ofstream(dir / "text") << text;
  EXPECT_EQ(cli::read_proc_text(dir / "text"), text);
  EXPECT_EQ(cli::read_proc_text(dir / "text", 4), "a:  ");
  std::string_view rest = text;
  cli::Words words(cli::next_line(rest));
  EXPECT_EQ(words.next(), "a:");
  EXPECT_EQ(words.number<std::uint64_t>(), 12U);
  EXPECT_EQ(words.number<std::uint64_t>(), std::nullopt) << "negative";
  EXPECT_EQ(words.number<double>(), std::nullopt) << "no number to its end";
  EXPECT_EQ(words.next(), "");
  EXPECT_EQ(cli::next_line(rest), "");
  EXPECT_EQ(cli::next_line(rest).substr(0, 5), "last9");
  EXPECT_TRUE(rest.empty());
  EXPECT_EQ(cli::next_line(rest), "");
}

}  // namespace
}  // namespace h5feed::test
