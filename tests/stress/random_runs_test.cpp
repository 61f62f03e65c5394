// SPDX-License-Identifier: Apache-2.0
// Random datasets, options, ends, errors and resumes, for a while: nothing hangs, and no sample is lost,
// doubled or changed.
//   H5FEED_TEST_SECONDS=1800 random_runs_test     takes so long; default 10 s
//   H5FEED_TEST_SEED=17 random_runs_test          begins with the run of this seed; default 1
//   H5FEED_TEST_RUNS=1                            ends after so many runs
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string>
#include <thread>

#include "base/mutex.hpp"
#include "stress/random_runs/run.hpp"
#include "support/captured_log.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongestStep(60);

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

// Ends the process, with the story of the run, if a call of a loader takes too long: a test that hangs tells
// nothing.
class Watchdog {
 public:
  Watchdog() : thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      const MutexLock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void begin(std::uint64_t seed, const Story& story) { set(&story, seed); }
  void end() { set(nullptr, 0); }

 private:
  void set(const Story* story, std::uint64_t seed) {
    const MutexLock lock(mutex_);
    story_ = story;
    seed_ = seed;
    begin_step();
  }

  void begin_step() H5FEED_REQUIRES(mutex_) {
    steps_ = story_ == nullptr ? 0 : story_->steps();
    deadline_ = Clock::now() + kLongestStep;
  }

  void watch() {
    MutexLock lock(mutex_);
    while (!stop_) {
      if (story_ != nullptr && story_->steps() != steps_) begin_step();
      if (story_ != nullptr && Clock::now() > deadline_) {
        std::fprintf(stderr, "the run of seed %llu hangs:\n%s", static_cast<unsigned long long>(seed_),
                     story_->text().c_str());
        std::abort();
      }
      changed_.wait_until(lock, Clock::now() + std::chrono::seconds(1));
    }
  }

  mutable Mutex mutex_;
  CondVar changed_;
  bool stop_ H5FEED_GUARDED_BY(mutex_) = false;
  const Story* story_ H5FEED_GUARDED_BY(mutex_) = nullptr;
  std::uint64_t seed_ H5FEED_GUARDED_BY(mutex_) = 0;
  std::uint64_t steps_ H5FEED_GUARDED_BY(mutex_) = 0;
  Clock::time_point deadline_ H5FEED_GUARDED_BY(mutex_);
  std::thread thread_;
};

TEST(RandomRuns, lose_double_or_change_no_sample) {
  const auto end = Clock::now() + std::chrono::seconds(from_environment("H5FEED_TEST_SECONDS", 10));
  const std::uint64_t first = from_environment("H5FEED_TEST_SEED", 1);
  const std::uint64_t most = from_environment("H5FEED_TEST_RUNS", std::numeric_limits<std::uint64_t>::max());
  Watchdog watchdog;
  std::uint64_t runs = 0;
  for (; runs < most && Clock::now() < end; ++runs) {
    const std::uint64_t seed = first + runs;
    // A report of a sanitizer that follows is of this run.
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    const CapturedLog quiet;
    const TempDir folder;
    Story story;
    watchdog.begin(seed, story);
    try {
      random_run(seed, folder.path(), story);
    } catch (const std::exception& error) {
      watchdog.end();
      FAIL() << error.what() << "\nin the run of H5FEED_TEST_SEED=" << seed << " H5FEED_TEST_RUNS=1:\n"
             << story.text();
    }
    watchdog.end();
  }
  std::printf("%llu runs\n", static_cast<unsigned long long>(runs));
  EXPECT_GT(runs, 0u);
}

}  // namespace
}  // namespace h5feed::test
