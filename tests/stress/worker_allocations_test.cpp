// SPDX-License-Identifier: Apache-2.0
// Allocations of a loader with workers and reader threads fail: each call of next() ends with the right
// samples or with an exception, the calls after it go on, and the next epoch is whole. A binary of its own,
// since it replaces operator new.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "flow/batches/task_queue.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/log.hpp"
#include "support/failing_new.hpp"
#include "support/files/sample_set.hpp"
#include "support/files/waiting_source.hpp"
#include "support/loaders/stored_samples.hpp"

namespace h5feed::test {
namespace {

constexpr std::int64_t kSamples = 60;

struct Case {
  const char* name;
  SampleSetSpec set;
  DataLoaderOptions options;
  bool waits = false;
};

std::vector<Case> cases() {
  const SampleSetSpec gzip{.shape = {kSamples, 6, 5}, .chunk_shape = {5, 6, 5}, .shuffle = true, .gzip = 1};
  const SampleSetSpec plain{.shape = {kSamples, 6, 5}};
  const SampleSetSpec chunks{.shape = {kSamples, 6, 5}, .chunk_shape = {5, 6, 5}};
  const SampleSetSpec pieces{.shape = {kSamples, 6, 5}, .chunk_shape = {5, 3, 5}, .gzip = 1};
  return {
      {"compressed", gzip, {.batch_size = 8, .shuffle = "chunk:3", .seed = 1}},
      {"full_shuffle", gzip, {.batch_size = 8, .shuffle = true, .seed = 1, .cache_bytes = 1000}},
      {"clairvoyant",
       gzip,
       {.batch_size = 8,
        .shuffle = true,
        .seed = 1,
        .cache_bytes = 1000,
        .cache_policy = CachePolicy::clairvoyant}},
      {"pieces", pieces, {.batch_size = 8, .shuffle = "chunk:3", .seed = 1}},
      {"uncompressed", plain, {.batch_size = 8, .shuffle = true, .seed = 1}},
      {"slow_compressed", gzip, {.batch_size = 8, .shuffle = true, .seed = 1, .io_depth = 4}, true},
      {"slow_stored", chunks, {.batch_size = 8, .shuffle = "chunk:3", .seed = 1, .io_depth = 4}, true},
      {"skipping", gzip, {.batch_size = 8, .seed = 1, .on_error = OnError::skip, .max_bad_share = 1}},
      {"echo", gzip, {.batch_size = 8, .echo = {.factor = 2}, .shuffle = true, .seed = 1}},
  };
}

class WorkerAllocations : public testing::TestWithParam<std::tuple<Case, std::int64_t>> {
 protected:
  WorkerAllocations() {
    set_log_sink([](LogLevel, std::string_view) {});
    options_ = param().options;
    options_.num_workers = std::get<1>(GetParam());
    dataset_ = DatasetAccess::open({.files = {set_.path()}, .data = "images"}, [&](auto source) {
      return param().waits ? std::make_shared<WaitingSource>(source, std::chrono::microseconds(20)) : source;
    });
  }
  ~WorkerAllocations() override { set_log_sink({}); }

  const Case& param() const { return std::get<0>(GetParam()); }
  std::int64_t samples_of_epoch() const { return kSamples * options_.echo.factor; }

  // Takes the batches up to the end of an epoch. Returns the number of samples, and counts the exceptions in
  // `thrown`.
  std::int64_t take_epoch(DataLoader& loader, std::int64_t& thrown) {
    std::int64_t samples = 0;
    while (true) {
      try {
        const auto batch = loader.next();
        if (!batch) return samples;
        const NoFailures comparing;
        expect_stored(set_, *batch);
        samples += batch->size();
      } catch (const std::exception&) {
        // As many exceptions as there are batches, and a few for calls without a batch, are to be expected.
        if (++thrown > 100) return samples;
      }
    }
  }

  // Lets allocations fail while a loader is made and delivers an epoch; then takes the rest of what was
  // prepared meanwhile, and an epoch that must be whole. Returns whether an allocation has failed.
  bool fail(const FailingNew& what) {
    std::unique_ptr<DataLoader> loader;
    std::int64_t thrown = 0;
    std::int64_t samples = 0;
    begin_failures(what);
    try {
      loader = std::make_unique<DataLoader>(*dataset_, options_);
      samples = take_epoch(*loader, thrown);
    } catch (const std::exception&) {
      ++thrown;
    }
    const bool failed = end_failures();
    EXPECT_LE(thrown, 100) << "next() throws for ever";
    EXPECT_LE(samples, samples_of_epoch());
    if (thrown == 0 && options_.on_error == OnError::fail) {
      EXPECT_EQ(samples, samples_of_epoch()) << "the failure was lost";
    }
    if (loader) {
      take_epoch(*loader, thrown);  // some of its batches were prepared while allocations failed
      thrown = 0;
      EXPECT_EQ(take_epoch(*loader, thrown), samples_of_epoch()) << "after the failures";
      EXPECT_EQ(thrown, 0);
    }
    return failed;
  }

  // Fails the n-th allocation, until no run has so many: for every n below 64 and every fifth one then, or
  // for every one if H5FEED_TEST_ALLOCATIONS is "all".
  void fail_each(FailingNew what) {
    const char* const wanted = std::getenv("H5FEED_TEST_ALLOCATIONS");
    const bool all = wanted != nullptr && std::string_view(wanted) == "all";
    constexpr int kRunsWithout = 3;  // threads make a run need a few more or less
    for (int without = 0; without < kRunsWithout; what.first += all || what.first < 64 ? 1 : 5) {
      without = fail(what) ? 0 : without + 1;
      ASSERT_FALSE(HasFailure()) << "allocation " << what.first;
    }
    EXPECT_GT(what.first, 10) << "the test counts nothing";
  }

  const SampleSet set_{param().set};
  DataLoaderOptions options_;
  std::optional<Dataset> dataset_;
};

TEST_P(WorkerAllocations, end_with_all_samples_or_an_exception_on_any_thread) { fail_each({}); }

TEST_P(WorkerAllocations, end_with_all_samples_or_an_exception_when_every_worker_is_out_of_memory) {
  fail_each({.lasting = true, .other_threads = true});
}

TEST_P(WorkerAllocations, end_with_all_samples_or_an_exception_also_for_large_buffers) {
  fail_each({.other_threads = true, .large_buffers = true});
}

INSTANTIATE_TEST_SUITE_P(All, WorkerAllocations,
                         testing::Combine(testing::ValuesIn(cases()), testing::Values(1, 2)),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param).name) + "_" +
                                  std::to_string(std::get<1>(each.param));
                         });

struct Sooner {
  bool operator()(int a, int b) const { return a > b; }
};

TEST(TaskQueue, drops_a_task_without_memory_and_says_so_once) {
  TaskQueue<int, Sooner> queue;
  begin_failures({.lasting = true});
  const bool pushed = queue.try_push(1);
  end_failures();
  EXPECT_FALSE(pushed);
  int task = 0;
  EXPECT_FALSE(queue.try_pop(task));
  queue.note_lost();
  EXPECT_FALSE(queue.pop(task)) << "does not block while a task is lost";
  EXPECT_TRUE(queue.take_lost());
  EXPECT_FALSE(queue.take_lost());
  EXPECT_TRUE(queue.try_push(2));
  EXPECT_TRUE(queue.pop(task));
  EXPECT_EQ(task, 2);
}

TEST(TaskQueue, wakes_a_sleeper_for_a_lost_task) {
  TaskQueue<int, Sooner> queue;
  bool lost = false;
  std::jthread sleeper([&] {
    int task = 0;
    if (!queue.pop(task)) lost = queue.take_lost();
  });
  queue.note_lost();
  sleeper.join();
  EXPECT_TRUE(lost);
}

}  // namespace
}  // namespace h5feed::test
