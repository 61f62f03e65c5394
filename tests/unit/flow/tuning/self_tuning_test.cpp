// SPDX-License-Identifier: Apache-2.0
// Loaders with num_workers = kAuto: their options, and that nothing but the speed depends on what they
// choose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/byte_units.hpp"
#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/batches/active_workers.hpp"
#include "flow/batches/task_queue.hpp"
#include "flow/measure/thread_clocks.hpp"
#include "flow/resolve/resolve.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/captured_log.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// Returns the options of a loader on a host with 8 CPUs and 64 GiB, resolved.
ResolvedOptions resolved_on(const SystemLimits& limits, const SampleSet& set,
                            const DataLoaderOptions& options) {
  const Dataset dataset = open(set);
  return resolve(options, *DatasetAccess::state(dataset), nullptr, limits, MemoryClaim::foreseen).options;
}

SystemLimits host(unsigned cpus = 8) {
  SystemLimits limits;
  limits.cpus = limits.host_cpus = cpus;
  limits.cpus_bound_by = limits.memory_bound_by = "host";
  limits.available_bytes = 64 * kGiB;
  return limits;
}

class Auto : public testing::Test {
 protected:
  SampleSet set_{gzip_set()};
};

TEST_F(Auto, reserves_for_what_it_may_choose) {
  const ResolvedOptions options = resolved_on(host(), set_, {.batch_size = 10, .num_workers = kAuto});
  EXPECT_TRUE(options.self_tuning);
  EXPECT_EQ(options.cpu_limit, 8);
  EXPECT_EQ(options.num_workers, 32) << "four per CPU, because workers that wait for storage use none";
  EXPECT_EQ(options.concurrent_decodes, 32);
  EXPECT_EQ(options.prefetch_batches, 128U);
  EXPECT_EQ(options.io_depth, 128);
  EXPECT_EQ(resolved_on(host(128), set_, {.num_workers = kAuto}).num_workers, 128);
  EXPECT_EQ(resolved_on(host(32), set_, {.num_workers = kAuto}).num_workers, 64);
  EXPECT_EQ(resolved_on(host(), set_, {.num_workers = kAuto, .cpu_limit = 1.5}).num_workers, 4);
  EXPECT_EQ(resolved_on(host(), set_, {.num_workers = kAuto, .cpu_limit = 0.01}).num_workers, 4);
  EXPECT_EQ(resolved_on(host(), set_, {.num_workers = kAuto, .cpu_limit = 1e9}).cpu_limit, 8);
  EXPECT_FALSE(resolved_on(host(), set_, {.num_workers = 2}).self_tuning);
  EXPECT_EQ(resolved_on(host(), set_, {.num_workers = 2}).cpu_limit, 0);
}

TEST_F(Auto, may_choose_no_more_than_the_given_bounds) {
  const ResolvedOptions options = resolved_on(
      host(), set_, {.batch_size = 10, .num_workers = kAuto, .prefetch_factor = 1, .io_depth = 3});
  EXPECT_EQ(options.prefetch_batches, 32U);
  EXPECT_EQ(options.io_depth, 3);
  const std::uint64_t batch = 10 * (set_.sample_bytes() + sizeof(std::int64_t));
  EXPECT_EQ(resolved_on(host(), set_, {.batch_size = 10, .num_workers = kAuto, .prefetch_bytes = 5 * batch})
                .prefetch_batches,
            5U);
}

TEST_F(Auto, fits_into_a_small_budget) {
  const SampleSet large(
      {.shape = {64, 128, 1024}, .chunk_shape = {8, 128, 1024}, .gzip = 1});  // chunks of 1 MiB
  const ResolvedOptions options =
      resolved_on(host(), large, {.batch_size = 8, .num_workers = kAuto, .memory_budget_bytes = 32 * kMiB});
  EXPECT_GE(options.num_workers, 1);
  EXPECT_LE(options.num_workers, 8) << "a quarter of the budget for chunks being decoded";
  EXPECT_EQ(options.num_workers, options.concurrent_decodes);
  EXPECT_LE(options.prefetch_batches, 8U) << "a quarter of the budget for batches";
  EXPECT_GE(options.prefetch_batches, 2U);
  const ResolvedOptions tiny =
      resolved_on(host(), large,
                  {.batch_size = 8, .num_workers = kAuto, .cache_bytes = 0, .memory_budget_bytes = 5 * kMiB});
  EXPECT_EQ(tiny.num_workers, 1);
  EXPECT_EQ(tiny.prefetch_batches, 1U);
  EXPECT_THAT(refusal<OptionError>(open(large),
                                   {.batch_size = 64, .num_workers = kAuto, .memory_budget_bytes = 5 * kMiB}),
              HasSubstr("memory_budget_bytes 5 MiB cannot hold"));
}

TEST_F(Auto, prefetches_many_batches_where_they_share_decoded_chunks) {
  const DataLoaderOptions options{
      .batch_size = 1, .shuffle = "full", .num_workers = kAuto, .cpu_limit = 1, .cache_bytes = 1000};
  const test::CapturedLog quiet;
  EXPECT_EQ(resolved_on(host(), set_, options).prefetch_batches, 101U) << "no more than an epoch";
  DataLoader loader(open(set_), options);
  EXPECT_EQ(loader.stats().prefetched_batches, 101U);
}

TEST_F(Auto, shares_the_host_with_the_processes_on_it) {
  const auto with = [&](std::int64_t processes) {
    return resolved_on(host(), set_, {.num_workers = kAuto, .local_world_size = processes});
  };
  const ResolvedOptions alone = with(1), one_of_four = with(4);
  EXPECT_EQ(alone.local_world_size, 1);
  EXPECT_EQ(one_of_four.local_world_size, 4);
  EXPECT_EQ(one_of_four.cpu_limit, 2);
  EXPECT_EQ(one_of_four.num_workers, 8);
  EXPECT_EQ(alone.memory_budget_bytes, 32 * kGiB);
  EXPECT_EQ(one_of_four.memory_budget_bytes, 8 * kGiB);
  EXPECT_EQ(alone.cache_bytes, kGiB);
  EXPECT_EQ(with(128).cache_bytes, kGiB / 8);
  const ResolvedOptions given = resolved_on(host(), set_,
                                            {.num_workers = kAuto,
                                             .cpu_limit = 3,
                                             .local_world_size = 4,
                                             .cache_bytes = kMiB,
                                             .memory_budget_bytes = kGiB});
  EXPECT_EQ(given.cpu_limit, 3) << "given values are not divided";
  EXPECT_EQ(given.cache_bytes, kMiB);
  EXPECT_EQ(given.memory_budget_bytes, kGiB);
}

TEST_F(Auto, refuses_what_makes_no_sense) {
  const auto refuse = [&](const DataLoaderOptions& options) {
    return refusal<OptionError>(open(set_), options);
  };
  EXPECT_EQ(refuse({.num_workers = -2}), "num_workers must be 0 to 1024, or auto (-1); got -2");
  EXPECT_EQ(refuse({.num_workers = 1025}), "num_workers must be 0 to 1024, or auto (-1); got 1025");
  EXPECT_EQ(refuse({.num_workers = kAuto, .cpu_limit = 0}), "cpu_limit must be above 0; got 0");
  EXPECT_EQ(refuse({.num_workers = kAuto, .cpu_limit = -1.5}), "cpu_limit must be above 0; got -1.5");
  EXPECT_EQ(refuse({.num_workers = kAuto, .cpu_limit = std::numeric_limits<double>::quiet_NaN()}),
            "cpu_limit must be above 0; got nan");
  EXPECT_EQ(refuse({.num_workers = 2, .cpu_limit = 1}),
            "cpu_limit bounds what num_workers = auto may choose; set num_workers = auto, or leave it unset");
  EXPECT_EQ(refuse({.local_world_size = -1}),
            "local_world_size must be 0 (from the launcher) to 1048576; got -1");
  EXPECT_EQ(refuse({.num_workers = kAuto, .prefetch_factor = 0}), "prefetch_factor must be 1 to 1024; got 0");
  EXPECT_EQ(refuse({.num_workers = kAuto, .prefetch_bytes = 10}).substr(0, 33),
            "prefetch_bytes 10 B holds no batc");
}

// Computes on its thread.
void compute(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(AutoOracle, random_options_give_the_bytes_of_no_workers_while_the_consumer_changes_its_speed) {
  const SampleSet sets[] = {SampleSet({.shape = {300, 8, 6}, .chunk_shape = {10, 8, 6}, .gzip = 1}),
                            SampleSet({.shape = {300, 8, 6}, .chunk_shape = {7, 4, 4}, .gzip = 1}),
                            SampleSet({.shape = {300, 8, 6}})};
  const test::CapturedLog quiet;
  std::mt19937 random(11);
  const auto any = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int round = 0; round < 24; ++round) {
    const Dataset dataset = open(sets[any(0, 2)]);
    DataLoaderOptions options{.batch_size = any(1, 20), .drop_last = any(0, 1) == 1};
    options.shuffle =
        std::vector<Shuffle>{"sequential", "full", "chunk:1"}[static_cast<std::size_t>(any(0, 2))];
    options.seed = static_cast<std::uint64_t>(any(0, 1000));
    options.cache_bytes = static_cast<std::uint64_t>(any(0, 20'000));
    if (any(0, 3) == 0) options.cache_policy = CachePolicy::keep_first;
    if (any(0, 3) == 0) options.normalize = Normalize{};
    options.echo.factor = any(0, 3) == 0 ? 2 : 1;
    DataLoader oracle(dataset, options);
    options.num_workers = kAuto;
    if (any(0, 1) == 0) options.cpu_limit = static_cast<double>(any(1, 16)) / 4;
    if (any(0, 2) == 0) options.prefetch_factor = any(1, 4);
    if (any(0, 2) == 0) options.io_depth = any(0, 8);
    if (any(0, 2) == 0) options.timeout = std::chrono::minutes(10);
    DataLoader loader(dataset, options);
    for (int epoch = 0; epoch < 3; ++epoch) {
      const std::chrono::microseconds step(epoch == 1 ? 200 : 0);
      while (const auto expected = oracle.next()) {
        const auto batch = loader.next();
        ASSERT_TRUE(batch);
        ASSERT_EQ(delivery_of(*batch), delivery_of(*expected)) << "round " << round;
        compute(step);
        const LoaderStats stats = loader.stats();
        ASSERT_GE(stats.active_workers, 1U);
        ASSERT_LE(stats.active_workers, static_cast<std::uint64_t>(loader.options().num_workers));
        ASSERT_GE(stats.prefetched_batches, 1U);
        ASSERT_LE(stats.prefetched_batches, loader.options().prefetch_batches);
        ASSERT_LE(stats.reads_in_flight, static_cast<std::uint64_t>(loader.options().io_depth));
        if (options.prefetch_factor) {
          ASSERT_LE(stats.prefetched_batches,
                    stats.active_workers * static_cast<std::uint64_t>(*options.prefetch_factor));
        }
      }
      ASSERT_FALSE(loader.next());
    }
  }
}

TEST_F(Auto, resumes_what_a_fixed_number_of_workers_has_begun_and_back) {
  const auto options = [](std::int64_t workers) {
    return DataLoaderOptions{.batch_size = 7, .shuffle = "full", .seed = 5, .num_workers = workers};
  };
  DataLoader whole(open(set_), options(0));
  const std::vector<Delivery> expected = rest_of_epoch(whole);
  for (const std::int64_t first : {kAuto, std::int64_t{2}}) {
    DataLoader before(open(set_), options(first));
    std::vector<Delivery> all;
    for (int i = 0; i < 6; ++i) all.push_back(delivery_of(before.next().value()));
    DataLoader after(open(set_), options(first == kAuto ? 2 : kAuto));
    after.restore(before.state());
    for (Delivery& delivery : rest_of_epoch(after)) all.push_back(std::move(delivery));
    EXPECT_EQ(all, expected);
  }
}

TEST_F(Auto, delivers_every_sample_out_of_order) {
  DataLoader loader(open(set_),
                    {.batch_size = 3, .in_order = false, .shuffle = "full", .num_workers = kAuto});
  for (int epoch = 0; epoch < 20; ++epoch) {
    std::set<std::int64_t> samples;
    while (const auto batch = loader.next()) samples.insert(batch->indices.begin(), batch->indices.end());
    ASSERT_EQ(samples.size(), 100U);
  }
}

TEST_F(Auto, calls_worker_init_fn_at_most_once_for_each_number) {
  std::mutex mutex;
  std::vector<std::int64_t> workers;
  std::int64_t most = 0;
  {
    DataLoader loader(open(set_),
                      {.batch_size = 2, .num_workers = kAuto, .worker_init_fn = [&](std::int64_t worker) {
                         const std::lock_guard lock(mutex);
                         workers.push_back(worker);
                       }});
    most = loader.options().num_workers;
    for (int epoch = 0; epoch < 5; ++epoch) {
      while (loader.next()) {
      }
    }
  }
  std::ranges::sort(workers);
  ASSERT_FALSE(workers.empty());
  EXPECT_EQ(std::ranges::adjacent_find(workers), workers.end());
  EXPECT_EQ(workers.back(), static_cast<std::int64_t>(workers.size()) - 1);
  EXPECT_LT(workers.back(), most);
}

TEST_F(Auto, passes_on_what_a_worker_throws) {
  DataLoader refused(open(set_), {.batch_size = 10, .num_workers = kAuto, .worker_init_fn = [](std::int64_t) {
                                    throw std::runtime_error("no license");
                                  }});
  EXPECT_THROW(refused.next(), std::runtime_error);
  std::atomic<int> calls = 0;
  DataLoader loader(open(set_), {.batch_size = 10,
                                 .collate_fn =
                                     [&](Batch&) {
                                       if (calls++ % 2 == 0) throw std::runtime_error("odd");
                                     },
                                 .num_workers = kAuto});
  int errors = 0, batches = 0;
  for (bool more = true; more;) {
    try {
      more = loader.next().has_value();
      batches += more ? 1 : 0;
    } catch (const std::runtime_error&) {
      ++errors;
    }
  }
  EXPECT_EQ(errors + batches, 10);
  EXPECT_GT(errors, 0);
}

TEST_F(Auto, says_once_what_it_has_chosen_and_why) {
  const test::CapturedLog log;
  DataLoader loader(open(set_), {.batch_size = 1, .num_workers = kAuto, .cpu_limit = 1});
  EXPECT_THAT(loader.report(),
              HasSubstr("num_workers = auto: 1 worker (at most 4), 4 batches prefetched (at most "
                        "16), 2 reads ahead (at most 16): nothing was measured yet\n"));
  EXPECT_THAT(loader.report(), HasSubstr("num_workers auto, device"));
  const auto lines = [&] {
    std::vector<std::string> all = log.lines();
    std::erase_if(all, [](const std::string& line) { return !line.starts_with("num_workers"); });
    return all;
  };
  while (lines().empty()) {
    while (loader.next()) {
    }
  }
  for (int epoch = 0; epoch < 20; ++epoch) {
    while (loader.next()) {
    }
  }
  EXPECT_THAT(lines().front(), StartsWith("num_workers = auto: "));
  EXPECT_LE(lines().size(), 3U) << "again only after a lasting change";
}

TEST_F(Auto, without_it_the_statistics_are_the_options) {
  DataLoader loader(open(set_), {.batch_size = 10, .num_workers = 3, .prefetch_factor = 2, .io_depth = 5});
  EXPECT_EQ(loader.stats().active_workers, 3U);
  EXPECT_EQ(loader.stats().prefetched_batches, 6U);
  EXPECT_EQ(loader.stats().reads_in_flight, 5U);
  EXPECT_THAT(loader.report(), testing::Not(HasSubstr("num_workers auto")));
}

TEST_F(Auto, ends_at_any_moment) {
  for (int taken = 0; taken <= 60; ++taken) {
    DataLoader loader(open(set_), {.batch_size = 2, .shuffle = "full", .num_workers = kAuto});
    for (int i = 0; i < taken; ++i) loader.next();
  }
}

// Workers that take tasks while others are switched off and on: every task is done once, nobody hangs.
TEST(ActiveWorkers, do_every_task_while_their_number_changes) {
  constexpr int kTasks = 20'000;
  TaskQueue<int, std::greater<>> queue;
  ActiveWorkers active(1);
  std::vector<std::atomic<int>> done(kTasks);
  std::atomic<int> left = kTasks;
  {
    std::vector<std::jthread> workers;
    for (std::int64_t worker = 0; worker < 6; ++worker) {
      workers.emplace_back([&, worker] {
        while (!queue.stopped()) {
          active.wait(worker);
          int task = 0;
          if (!queue.pop(task, [&] { return !active.contains(worker); })) continue;
          ++done[static_cast<std::size_t>(task)];
          --left;
          left.notify_one();
        }
      });
    }
    std::mt19937 random(5);
    for (int task = 0; task < kTasks; ++task) {
      queue.push(task);
      if (task % 7 == 0) {
        active.set(std::uniform_int_distribution<std::int64_t>(1, 6)(random));
        queue.wake_all();
      }
      if (task % 50 == 0) {  // lets the queue run empty, so that workers sleep in it
        for (int now = left; now > kTasks - task - 1; now = left) left.wait(now);
      }
    }
    for (int now = left; now > 0; now = left) left.wait(now);
    queue.stop();
    active.stop();
  }
  EXPECT_TRUE(std::ranges::all_of(done, [](const std::atomic<int>& count) { return count == 1; }));
}

TEST(ThreadClocks, count_the_time_of_threads_that_run_and_of_those_that_have_ended) {
  ThreadClocks clocks;
  EXPECT_EQ(clocks.cpu_ns(), 0U);
  std::atomic<bool> stop = false;
  std::jthread thread([&] {
    const ThreadClocks::Enlisted enlisted(&clocks);
    while (!stop) {
    }
  });
  while (clocks.cpu_ns() < 2'000'000) {
  }
  stop = true;
  thread.join();
  const std::uint64_t ended = clocks.cpu_ns();
  EXPECT_GE(ended, 2'000'000U);
  EXPECT_EQ(clocks.cpu_ns(), ended);
}

}  // namespace
}  // namespace h5feed::test
