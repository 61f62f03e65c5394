// SPDX-License-Identifier: Apache-2.0
// Waiting in small steps, as a host program with an event loop does, and forking meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "batch/buffer_pool.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using std::chrono::milliseconds;

TEST(WaitReady, is_false_until_a_worker_has_the_batch_and_loses_nothing) {
  const SampleSet set(gzip_set());
  std::latch release(1);
  DataLoaderOptions options;
  options.batch_size = 50;
  options.num_workers = 1;
  options.worker_init_fn = [&](std::int64_t) { release.wait(); };
  DataLoader loader(open(set), options);
  EXPECT_FALSE(loader.wait_ready(milliseconds(0)));
  EXPECT_FALSE(loader.wait_ready(milliseconds(1)));
  release.count_down();
  for (std::int64_t first = 0; first < 100; first += 50) {
    while (!loader.wait_ready(milliseconds(1000))) {
    }
    EXPECT_EQ(loader.next().value().indices.front(), first);
  }
  EXPECT_TRUE(loader.wait_ready(milliseconds(0))) << "the end of an epoch needs no waiting";
  EXPECT_FALSE(loader.next());
  EXPECT_GT(loader.stats().wait_ns, 1000000u) << "the time spent in wait_ready counts";
}

TEST(WaitReady, without_workers_does_a_part_of_the_work_each_time) {
  const SampleSet set(gzip_set());
  for (const bool in_order : {true, false}) {
    DataLoaderOptions options;
    options.batch_size = 100;
    options.in_order = in_order;
    DataLoader loader(open(set), options);
    EXPECT_FALSE(loader.wait_ready(milliseconds(0)));
    while (!loader.wait_ready(milliseconds(1))) {
    }
    EXPECT_EQ(loader.next().value().size(), 100);
  }
}

TEST(WaitReady, counts_towards_the_timeout_of_next) {
  const SampleSet set(gzip_set());
  std::latch release(1);
  DataLoaderOptions options;
  options.num_workers = 1;
  options.timeout = std::chrono::hours(1);
  options.worker_init_fn = [&](std::int64_t) { release.wait(); };
  DataLoader patient(open(set), options);
  EXPECT_FALSE(patient.wait_ready(milliseconds(1)));
  options.timeout = milliseconds(5);
  DataLoader hasty(open(set), options);
  while (!hasty.wait_ready(milliseconds(2))) {
  }
  EXPECT_THROW(hasty.next(), TimeoutError);
  release.count_down();
}

TEST(WaitReady, leaves_what_worker_init_fn_throws_to_next) {
  const SampleSet set(gzip_set());
  DataLoaderOptions options;
  options.num_workers = 1;
  options.worker_init_fn = [](std::int64_t) { throw std::runtime_error("no licence"); };
  DataLoader loader(open(set), options);
  while (!loader.wait_ready(milliseconds(1000))) {
  }
  EXPECT_THROW(loader.next(), std::runtime_error);
}

// Sanitizers do not support a child of several threads that goes on: ThreadSanitizer ends it at its first
// thread, and the allocator of AddressSanitizer may be locked in it.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kForksAreSupported = false;
#elif defined(__has_feature)
constexpr bool kForksAreSupported = !__has_feature(thread_sanitizer) && !__has_feature(address_sanitizer);
#else
constexpr bool kForksAreSupported = true;
#endif

// Whether a thread of this process sleeps, for instance to wait for a mutex.
bool sleeps(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string stat;
  std::getline(file, stat);
  return stat.substr(stat.rfind(')') + 1, 2) == " S";
}

// Alone in its process, it forks before any file was opened. fork() either waits for the line, or copies the
// lock that is held for it.
TEST(Fork, waits_for_the_line_that_another_thread_writes) {
  if (!kForksAreSupported) GTEST_SKIP() << "not under a sanitizer";
  std::latch writing(1);
  std::atomic<bool> forking = false;
  std::atomic<bool> forked = false;
  set_log_sink([&, forker = ::gettid()](LogLevel, std::string_view) {
    writing.count_down();
    forking.wait(false);
    while (!forked && !sleeps(forker)) std::this_thread::yield();
  });
  std::thread writer([] { log(LogLevel::info, "a line"); });
  writing.wait();
  forking = true;
  forking.notify_all();
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(30);  // ends a child that hangs
    set_log_sink({});
    _exit(0);
  }
  forked = true;
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  writer.join();
  set_log_sink({});
}

// Threads lend and return buffers, so that a fork often finds the pool's mutex locked.
TEST(Fork, leaves_the_child_able_to_release_the_batches_that_it_inherits) {
  if (!kForksAreSupported) GTEST_SKIP() << "not under a sanitizer";
  BufferPool pool(64, 4);
  std::shared_ptr<std::byte> inherited = pool.acquire();
  std::atomic<bool> stop = false;
  std::vector<std::thread> users;
  for (int i = 0; i < 4; ++i) {
    users.emplace_back([&] {
      while (!stop) pool.acquire();
    });
  }
  for (int child = 0; child < 100; ++child) {
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(10);  // ends a child that hangs
      inherited.reset();
      _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0) << "child " << child;
  }
  stop = true;
  for (std::thread& user : users) user.join();
}

TEST(Fork, leaves_the_child_able_to_open_and_to_log) {
  if (!kForksAreSupported) GTEST_SKIP() << "not under a sanitizer";
  const SampleSet set(gzip_set());
  std::atomic<bool> stop = false;
  set_log_sink([](LogLevel, std::string_view) {});
  std::thread opener([&] {
    while (!stop) open(set);
  });
  std::thread writer([&] {
    while (!stop) log(LogLevel::info, "a line");
  });
  for (int child = 0; child < 8; ++child) {
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(30);  // ends a child that hangs
      log(LogLevel::info, "a line");
      _exit(open(set).size() == 100 ? 0 : 1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  opener.join();
  writer.join();
  set_log_sink({});
}

}  // namespace
}  // namespace h5feed::test
