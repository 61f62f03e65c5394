// SPDX-License-Identifier: Apache-2.0
// The workers of a loader: their set-up, and how long a consumer waits for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <latch>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

TEST(DataLoader, calls_worker_init_fn_once_on_each_worker) {
  const SampleSet set(gzip_set());
  std::mutex mutex;
  std::vector<int> workers;
  std::latch called(3);
  DataLoader loader(open(set), {.num_workers = 3, .worker_init_fn = [&](int worker) {
                                  {
                                    const std::lock_guard lock(mutex);
                                    workers.push_back(worker);
                                  }
                                  called.count_down();
                                }});
  called.wait();
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (loader.next()) {
    }
  }
  const std::lock_guard lock(mutex);
  EXPECT_THAT(workers, testing::UnorderedElementsAre(0, 1, 2));
}

TEST(DataLoaderErrors, of_worker_init_fn_arrive_at_the_first_next_and_stay) {
  const SampleSet set(gzip_set());
  std::latch asked(1);
  DataLoader loader(open(set), {.batch_size = 50, .num_workers = 2, .worker_init_fn = [&](int worker) {
                                  if (worker == 0) return;
                                  asked.wait();  // late: worker 0 could deliver everything by then
                                  throw std::runtime_error("no license for worker 1");
                                }});
  asked.count_down();
  for (int call = 0; call < 3; ++call) {
    try {
      loader.next();
      ADD_FAILURE() << "a batch came although a worker could not be set up";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "no license for worker 1");
    }
  }
}

TEST(DataLoaderErrors, of_worker_init_fn_are_thrown_by_epochs_without_batches_too) {
  const SampleSet set(gzip_set());
  for (const std::int64_t workers : {std::int64_t{1}, kAuto}) {
    DataLoader loader(
        open(set), {.batch_size = 1000, .drop_last = true, .num_workers = workers, .worker_init_fn = [](int) {
                      throw std::runtime_error("no license");
                    }});
    ASSERT_EQ(loader.size(), 0U);
    EXPECT_TRUE(loader.wait_ready(std::chrono::hours(1)));
    for (int call = 0; call < 3; ++call) EXPECT_THROW(loader.next(), std::runtime_error) << workers;
  }
}

TEST(DataLoaderErrors, a_timeout_names_itself_and_loses_no_batch) {
  const SampleSet set(gzip_set());
  std::latch release(1);
  {
    DataLoader loader(open(set), {.batch_size = 50,
                                  .timeout = std::chrono::milliseconds(20),
                                  .num_workers = 1,
                                  .worker_init_fn = [&](int) { release.wait(); }});
    try {
      loader.next();
      ADD_FAILURE() << "a batch came from a worker that waits";
    } catch (const TimeoutError& error) {
      EXPECT_THAT(error.what(), HasSubstr("no batch within the timeout of 20 ms (epoch 0, batch 0)"));
    }
    release.count_down();
    std::vector<std::int64_t> first;
    while (first.empty()) {
      try {
        first = loader.next().value().indices;
      } catch (const TimeoutError&) {
        // A slow machine: ask again.
      }
    }
    EXPECT_EQ(first.front(), 0);
  }
}

TEST(DataLoaderErrors, the_longest_timeout_is_no_timeout) {
  const SampleSet set(gzip_set());
  DataLoader loader(open(set),
                    {.batch_size = 50, .timeout = std::chrono::milliseconds::max(), .num_workers = 1});
  EXPECT_TRUE(loader.next());
}

}  // namespace
}  // namespace h5feed::test
