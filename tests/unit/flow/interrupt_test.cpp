// SPDX-License-Identifier: Apache-2.0
#include "h5feed/interrupt.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/interrupt.hpp"
#include "base/threads/share_out.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/sample_reader.hpp"
#include "support/files/sample_set.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

struct Interrupted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void interrupt() { throw Interrupted("the user wants to stop"); }

// Waits until the check of this thread is due. One that throws is due again at once.
void wait_until_interrupted() {
  const auto wait = [] {
    while (true) check_interrupt();
  };
  EXPECT_THROW(wait(), Interrupted);
}

TEST(InterruptCheck, ends_every_call_that_may_take_long) {
  const SampleSet set(gzip_set());
  const TempDir stage;
  const DatasetOptions options = {.files = {set.path()}, .data = "images", .target = "labels"};
  DatasetOptions staged = options;
  staged.stage_dir = stage.path();
  Dataset dataset = Dataset::open(options);
  const SampleReader reader(dataset);
  DataLoaderOptions preloading;
  preloading.preload = true;
  preloading.num_workers = 2;
  {
    const InterruptCheck check(interrupt);
    wait_until_interrupted();
    EXPECT_THROW(Dataset::open(options), Interrupted);
    EXPECT_THROW(Dataset::open(staged), Interrupted);
    EXPECT_THROW(dataset.refresh(), Interrupted);
    EXPECT_THROW(reader.read(std::vector<std::int64_t>{1, 2}), Interrupted);
    EXPECT_THROW(DataLoader(dataset, preloading), Interrupted);
    EXPECT_EQ(dataset.size(), 100);
  }
  dataset.refresh();
  EXPECT_EQ(reader.read(std::vector<std::int64_t>{1, 2}).size(), 2);
  EXPECT_EQ(Dataset::open(staged).size(), 100);
  DataLoader loader(dataset, preloading);
  EXPECT_TRUE(loader.next());
}

TEST(InterruptCheck, is_called_on_its_own_thread_and_the_newest_counts) {
  int calls = 0;
  const InterruptCheck outer([&] { ++calls; });
  {
    const InterruptCheck inner(interrupt);
    wait_until_interrupted();
    std::thread([] { check_interrupt(); }).join();
  }
  while (calls == 0) check_interrupt();
  check_interrupt();
  EXPECT_EQ(calls, 1) << "not every time: a check may be expensive";
}

TEST(InterruptCheck, may_call_h5feed_and_is_not_called_within_itself) {
  const SampleSet set(gzip_set());
  int within = 0;
  int calls = 0;
  const InterruptCheck check([&] {
    EXPECT_EQ(within, 0);
    if (within++ == 0) static_cast<void>(Dataset::open({.files = {set.path()}, .data = "images"}));
    --within;
    ++calls;
  });
  while (calls < 2) check_interrupt();
}

TEST(InterruptCheck, of_a_caller_ends_what_its_helpers_wait_for) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> helped = false;
  const auto wait = [&](std::uint64_t) {
    if (std::this_thread::get_id() == caller) {
      while (!helped) std::this_thread::yield();
      interrupt();
    }
    helped = true;
    while (true) check_interrupt();
  };
  EXPECT_THROW(share_out(2, 2, [&] { return wait; }), Interrupted);
}

}  // namespace
}  // namespace h5feed::test
