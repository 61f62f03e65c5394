// SPDX-License-Identifier: Apache-2.0
// What other threads, an InterruptCheck and a forked process can do while an answer is awaited.
#include "store/isolation/turn.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "h5feed/error.hpp"
#include "h5feed/interrupt.hpp"
#include "store/isolation/isolated_file.hpp"
#include "support/fakes/fake_reader.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

struct Interrupted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void interrupt() { throw Interrupted("the user wants to stop"); }

using File = std::shared_ptr<const IsolatedFile>;

// Stand-ins that open any file, and answer other requests with the number of files closed so far, once that
// is allowed.
class IsolationTurn : public testing::Test {
 protected:
  IsolationTurn() { ::setenv("H5FEED_FAKE_READER_UNTIL", (dir_ / "allowed").c_str(), 1); }
  ~IsolationTurn() override { ::unsetenv("H5FEED_FAKE_READER_UNTIL"); }

  void allow_answers() const { std::ofstream(dir_ / "allowed") << "now"; }

  File open(const std::shared_ptr<ReaderProcess>& process) const {
    return std::make_shared<const IsolatedFile>(process, "a.h5", "a.h5");
  }

  TempDir dir_;
  const FakeReader fake_{"wait"};
};

int closed_files(const IsolatedFile& file) {
  return static_cast<int>(file.ask_bytes(Request::heap_format).at(0));
}

// Asks on a thread of its own.
class Asking {
 public:
  // Returns when the thread waits for the answer.
  explicit Asking(File file)
      : answer_(std::async(std::launch::async, [this, file = std::move(file)] {
          const InterruptCheck check([this] { waits_ = true; });
          return closed_files(*file);
        })) {
    while (!waits_) std::this_thread::yield();
  }
  int answer() { return answer_.get(); }

 private:
  std::atomic<bool> waits_ = false;
  std::future<int> answer_;
};

TEST_F(IsolationTurn, an_interrupt_check_ends_a_request_and_its_process) {
  const auto process = FakeReader::process();
  const File file = open(process);
  const std::uint64_t generation = process->generation();
  {
    const InterruptCheck check(interrupt);
    EXPECT_THROW(closed_files(*file), Interrupted);
  }
  allow_answers();
  EXPECT_EQ(closed_files(*file), 0);
  EXPECT_NE(process->generation(), generation) << "what was left of the first answer would come now";
}

TEST_F(IsolationTurn, an_interrupt_check_ends_waiting_for_another_thread) {
  const File file = open(FakeReader::process());
  Asking other(file);
  {
    const InterruptCheck check(interrupt);
    EXPECT_THROW(closed_files(*file), Interrupted);
  }
  allow_answers();
  EXPECT_EQ(other.answer(), 0);
}

TEST_F(IsolationTurn, one_thread_after_the_other_gets_an_answer) {
  const File file = open(FakeReader::process());
  Asking first(file);
  std::vector<std::future<int>> others;
  for (int i = 0; i < 4; ++i)
    others.push_back(std::async(std::launch::async, [&] { return closed_files(*file); }));
  allow_answers();
  EXPECT_EQ(first.answer(), 0);
  for (auto& other : others) EXPECT_EQ(other.get(), 0);
}

TEST_F(IsolationTurn, files_are_closed_without_waiting_for_it) {
  const auto process = FakeReader::process();
  const File file = open(process);
  File by_other_thread = open(process);
  File by_check = open(process);
  Asking other(file);
  by_other_thread.reset();
  allow_answers();
  EXPECT_EQ(other.answer(), 0) << "requests are not sent into the middle of another one";
  const InterruptCheck check([&] { by_check.reset(); });
  while (by_check) closed_files(*file);
  EXPECT_EQ(closed_files(*file), 2);
}

TEST_F(IsolationTurn, files_of_a_process_that_was_ended_are_not_closed_in_the_next_one) {
  const auto process = FakeReader::process();
  const File file = open(process);
  File closed = open(process);
  {
    const InterruptCheck check([&] {
      closed.reset();
      interrupt();
    });
    EXPECT_THROW(closed_files(*file), Interrupted);
  }
  allow_answers();
  EXPECT_EQ(closed_files(*file), 0);
}

TEST_F(IsolationTurn, a_request_within_an_interrupt_check_is_refused_or_answered_but_does_not_wait_forever) {
  const File file = open(FakeReader::process());
  std::string refused;
  int opened = 0;
  {
    const InterruptCheck check([&] {
      refused = refusal_of<std::logic_error>([&] { closed_files(*file); });
      open(FakeReader::process());
      ++opened;
      allow_answers();
    });
    EXPECT_EQ(closed_files(*file), 0);
  }
  EXPECT_EQ(
      refused,
      "a.h5: cannot be read within an InterruptCheck, in Python a signal handler, that was called while "
      "another answer of isolation = process is awaited; read it after that has returned");
  EXPECT_EQ(opened, 1);
}

TEST_F(IsolationTurn, a_request_within_an_interrupt_check_does_not_wait_for_another_thread) {
  const File file = open(FakeReader::process());
  const File of_other_process = open(FakeReader::process());
  Asking other(of_other_process);
  {
    const InterruptCheck check([&] {
      EXPECT_THROW(closed_files(*of_other_process), std::logic_error);
      allow_answers();
    });
    EXPECT_EQ(closed_files(*file), 0);
  }
  EXPECT_EQ(other.answer(), 0);
}

// Returns the exit code of a process that is forked here and calls `work`: 0 if that returned true.
int forked(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(IsolationTurn, a_process_forked_while_others_have_it_and_wait_for_it_has_its_own) {
  const auto process = FakeReader::process();
  File file = open(process);
  Asking first(file);
  std::atomic<bool> waits = false;
  auto second = std::async(std::launch::async, [&] {
    const InterruptCheck check([&] { waits = true; });
    return closed_files(*file);
  });
  while (!waits) std::this_thread::yield();
  EXPECT_EQ(forked([&] {
              ::setenv("H5FEED_FAKE_READER_UNTIL", "/", 1);
              open(process);
              if (closed_files(*file) != 1) return false;
              process->~ReaderProcess();  // The threads that the child does not have own it still
              return true;
            }),
            0);
  allow_answers();
  EXPECT_EQ(first.answer(), 0);
  EXPECT_EQ(second.get(), 0);
}

TEST_F(IsolationTurn, a_process_that_an_interrupt_check_forks_leaves_the_answer_to_the_other) {
  const File file = open(FakeReader::process());
  const pid_t parent = ::getpid();
  int exit_code = -1;
  std::string refused;
  {
    const InterruptCheck check([&] {
      const pid_t child = ::fork();
      if (child == 0) return;
      int status = -1;
      ::waitpid(child, &status, 0);
      exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      allow_answers();
    });
    refused = refusal_of<IsolationError>([&] { EXPECT_EQ(closed_files(*file), 0); });
  }
  if (::getpid() != parent) {
    ::setenv("H5FEED_FAKE_READER_UNTIL", "/", 1);
    ::_exit(refused.starts_with("a.h5: the process was forked ") && closed_files(*file) == 0 ? 0 : 1);
  }
  EXPECT_EQ(refused, "accepted");
  EXPECT_EQ(exit_code, 0);
}

TEST_F(IsolationTurn, answers_are_not_mixed_up_by_threads_that_are_interrupted) {
  allow_answers();
  const std::vector<std::shared_ptr<ReaderProcess>> processes = {FakeReader::process(),
                                                                 FakeReader::process()};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      const InterruptCheck check([&] {
        if (random() % 4 == 0) interrupt();
      });
      File kept;
      for (int i = 0; i < 200; ++i) {
        try {
          const File file = open(processes[random() % 2]);
          EXPECT_EQ(file->ask_bytes(Request::heap_format).size(), 1U);
          if (random() % 2 == 0) kept = file;
        } catch (const Interrupted&) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace h5feed::test
