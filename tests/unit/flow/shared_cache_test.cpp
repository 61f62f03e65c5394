// SPDX-License-Identifier: Apache-2.0
// Several loaders on one dataset: one cache, one budget; filling it beforehand; predictions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "flow/resolve/loader_group.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/captured_log.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kChunk = 10 * 48;  // decoded, of gzip_set()

std::uint64_t run(DataLoader& loader) {
  std::uint64_t samples = 0;
  for (Batch& batch : loader) samples += static_cast<std::uint64_t>(batch.size());
  return samples;
}

// Returns how often an epoch decodes each of the 10 chunks, on average.
double decodes_of_an_epoch(DataLoader& loader) {
  const std::uint64_t before = loader.stats().chunk_loads;
  run(loader);
  return static_cast<double>(loader.stats().chunk_loads - before) / 10;
}

class SharedCache : public testing::Test {
 protected:
  /// Returns whether no loader of `dataset_` lives.
  bool has_no_group() const {
    LoaderGroupPlace& place = *DatasetAccess::state(dataset_)->loaders;
    const MutexLock lock(place.mutex);
    return place.group.expired();
  }

  SampleSet set_{gzip_set()};  // 100 samples in 10 chunks
  Dataset dataset_ = open(set_);
};

TEST_F(SharedCache, spares_the_second_loader_what_the_first_has_decoded) {
  for (const std::int64_t workers : {0, 2}) {
    const Dataset dataset = open(set_);
    DataLoader training(dataset, {.batch_size = 10, .shuffle = true, .num_workers = workers});
    EXPECT_EQ(run(training), 100u);
    EXPECT_EQ(training.stats().chunk_loads, 10u);
    DataLoader validation(dataset, {.batch_size = 25, .num_workers = workers});
    EXPECT_EQ(run(validation), 100u);
    EXPECT_EQ(validation.stats().chunk_loads, 0u);
    EXPECT_EQ(validation.stats().cache_hit_rate(), 1.0) << "counted by loader";
    EXPECT_EQ(run(training), 100u);
    EXPECT_EQ(training.stats().chunk_loads, 10u) << "the second epoch decodes nothing";
  }
}

TEST_F(SharedCache, serves_the_parts_of_a_split) {
  const std::vector<Dataset> parts = dataset_.split({0.8, 0.2}, 1);
  DataLoader training(parts[0], {.batch_size = 10, .shuffle = true});
  EXPECT_EQ(run(training), 80u);
  DataLoader validation(parts[1], {.batch_size = 10});
  EXPECT_EQ(run(validation), 20u);
  EXPECT_EQ(training.stats().chunk_loads + validation.stats().chunk_loads, 10u);
}

TEST_F(SharedCache, says_once_which_figure_holds_where_a_loader_asks_for_less_or_more_than_another) {
  const test::CapturedLog log;
  DataLoader training(dataset_, {.batch_size = 10, .cache_bytes = 8 << 20, .memory_budget_bytes = 64 << 20});
  EXPECT_THAT(log.lines(), testing::IsEmpty());
  for (int i = 0; i < 2; ++i) {
    DataLoader validation(dataset_, {.batch_size = 10, .cache_bytes = 1 << 20, .memory_budget_bytes = 1});
    EXPECT_EQ(validation.options().memory_budget_bytes, 64u << 20);
    EXPECT_THAT(validation.report(),
                testing::HasSubstr("budget 64 MiB (bound by another loader of the dataset)"));
    EXPECT_EQ(validation.options().cache_bytes, 8u << 20);
  }
  for (int i = 0; i < 2; ++i) {
    DataLoader more(dataset_, {.batch_size = 10, .cache_bytes = 9 << 20, .memory_budget_bytes = 65 << 20});
    EXPECT_EQ(more.options().memory_budget_bytes, 65u << 20);
  }
  DataLoader same(dataset_, {.batch_size = 10, .cache_bytes = 8 << 20, .memory_budget_bytes = 64 << 20});
  DataLoader unset(dataset_, {.batch_size = 10});
  const std::string budget =
      ": another loader or TorchDataset of this dataset uses 64 MiB; they share one budget, so the larger "
      "value applies; set the same value in both, or open the file again";
  const std::string cache =
      ": another loader or TorchDataset of this dataset uses 8 MiB; they share one cache, so the larger "
      "value applies; set the same value in both, or open the file again";
  EXPECT_THAT(log.lines(),
              testing::ElementsAre("memory_budget_bytes 1 B" + budget, "cache_bytes 1 MiB" + cache,
                                   "memory_budget_bytes 65 MiB" + budget, "cache_bytes 9 MiB" + cache));
}

TEST_F(SharedCache, goes_with_the_last_loader) {
  {
    DataLoader loader(dataset_, {.batch_size = 10});
    run(loader);
    EXPECT_FALSE(has_no_group());
  }
  EXPECT_TRUE(has_no_group());
  DataLoader loader(dataset_, {.batch_size = 10});
  run(loader);
  EXPECT_EQ(loader.stats().chunk_loads, 10u);
}

TEST_F(SharedCache, has_the_largest_size_that_a_loader_asked_for) {
  DataLoader first(dataset_, {.cache_bytes = 2 * kChunk});
  DataLoader second(dataset_, {});
  EXPECT_EQ(second.options().cache_bytes, 2 * kChunk) << "joining is the default";
  DataLoader third(dataset_, {.cache_bytes = 10 * kChunk});
  EXPECT_EQ(run(first), 100u);
  EXPECT_EQ(run(first), 100u);
  EXPECT_EQ(first.stats().chunk_loads, 10u) << "the third made room for all";
}

TEST_F(SharedCache, shrinks_when_the_loader_that_asked_for_more_leaves) {
  const test::CapturedLog quiet;
  DataLoader small(dataset_, {.batch_size = 10, .cache_bytes = 2 * kChunk});
  {
    DataLoader large(dataset_, {.batch_size = 10, .cache_bytes = 10 * kChunk});
    run(large);
    EXPECT_EQ(large.stats().cache_bytes, 10 * kChunk);
  }
  EXPECT_LE(small.stats().cache_bytes, 2 * kChunk);
  EXPECT_EQ(run(small), 100u);
  EXPECT_LE(small.stats().cache_bytes, 2 * kChunk);
}

TEST_F(SharedCache, other_policies_have_a_cache_of_their_own) {
  const test::CapturedLog quiet;
  DataLoader lru(dataset_, {.batch_size = 10, .cache_bytes = 5 * kChunk});
  for (const CachePolicy policy : {CachePolicy::clairvoyant, CachePolicy::keep_first}) {
    DataLoader other(dataset_,
                     {.batch_size = 10, .shuffle = true, .cache_bytes = 5 * kChunk, .cache_policy = policy});
    EXPECT_EQ(run(other), 100u);
    EXPECT_GE(other.stats().chunk_loads, 10u);
  }
  EXPECT_EQ(lru.stats().chunk_loads, 0u);
  EXPECT_EQ(lru.stats().cache_bytes, 0u);
}

TEST_F(SharedCache, is_inside_one_budget) {
  const DataLoaderOptions options{
      .batch_size = 10, .cache_bytes = 10 * kChunk, .memory_budget_bytes = 540'000};
  auto first = std::make_unique<DataLoader>(dataset_, options);
  DataLoaderOptions large = options;
  large.batch_size = 100;
  large.num_workers = 4;
  const std::string refused = test::refusal<OptionError>(dataset_, large);
  EXPECT_THAT(refused, HasSubstr("other loaders of this dataset"));
  large.memory_budget_bytes = 700'000;
  EXPECT_EQ(test::refusal<OptionError>(dataset_, large), "accepted") << "the largest budget counts";
  DataLoader second(dataset_, options);
  EXPECT_EQ(second.options().cache_bytes, 10 * kChunk) << "the cache counts once";
}

TEST_F(SharedCache, survives_loaders_that_come_and_go_while_others_run) {
  const DataLoaderOptions options{.batch_size = 7, .shuffle = true, .seed = 1, .cache_bytes = 3 * kChunk};
  const test::CapturedLog quiet;
  DataLoader steady(dataset_, options);
  std::atomic<bool> stop = false;
  std::vector<std::jthread> threads;
  for (const std::int64_t workers : {0, 1, 3}) {
    threads.emplace_back([&, workers] {
      DataLoaderOptions mine = options;
      mine.num_workers = workers;
      while (!stop) {
        DataLoader passing(dataset_, mine);
        for (int batches = 0; batches < 5; ++batches) EXPECT_TRUE(passing.next());
      }
    });
  }
  for (int epoch = 0; epoch < 30; ++epoch) EXPECT_EQ(run(steady), 100u);
  stop = true;
}

TEST_F(SharedCache, is_full_before_the_first_batch_when_preloaded) {
  for (const std::int64_t workers : {0, 3}) {
    const Dataset dataset = open(set_);
    DataLoader loader(dataset, {.batch_size = 10, .shuffle = true, .num_workers = workers, .preload = true});
    EXPECT_EQ(loader.stats().chunk_loads, 10u);
    EXPECT_EQ(run(loader), 100u);
    EXPECT_EQ(loader.stats().chunk_loads, 10u);
    EXPECT_EQ(loader.stats().read_calls, 10u);
  }
}

TEST_F(SharedCache, preloads_only_the_chunks_of_a_subset) {
  const std::vector<std::int64_t> of_two_chunks = {5, 6, 95};
  DataLoader loader(dataset_.subset(of_two_chunks), {.preload = true});
  EXPECT_EQ(loader.stats().chunk_loads, 2u);
}

TEST_F(SharedCache, says_from_which_size_preloading_would_work) {
  const test::CapturedLog log;
  DataLoader loader(dataset_, {.cache_bytes = 5 * kChunk, .preload = true});
  EXPECT_EQ(loader.stats().chunk_loads, 0u);
  EXPECT_THAT(log.lines(), testing::Contains(HasSubstr(
                               "preload: the decoded data does not fit cache_bytes 2.3 KiB; it would from")));
  EXPECT_THAT(loader.report(), HasSubstr("all would fit from"));
}

TEST_F(SharedCache, preloading_leaves_a_damaged_chunk_to_its_batch) {
  test::damage(set_.path(), test::chunk_offset(set_, 6) + 4, 20);
  const Dataset dataset = open(set_);
  DataLoader loader(dataset, {.batch_size = 10, .preload = true});
  int failed = 0;
  int delivered = 0;
  for (bool more = true; more;) {
    try {
      more = loader.next().has_value();
      delivered += more ? 1 : 0;
    } catch (const ChunkError&) {
      ++failed;
    }
  }
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(delivered, 9);
}

// A chunk in which a batch ends is decoded for both where the cache holds none.
TEST_F(SharedCache, that_holds_no_chunk_is_foretold_for_batches_that_end_within_chunks) {
  const test::CapturedLog quiet;
  for (const CachePolicy policy : {CachePolicy::lru, CachePolicy::keep_first}) {
    for (const auto& [batch_size, decodes] : {std::pair(4, 3.0), {10, 1.0}, {16, 1.5}, {30, 1.0}}) {
      SCOPED_TRACE(std::string(name_of(policy)) + ' ' + std::to_string(batch_size));
      DataLoader loader(dataset_,
                        {.batch_size = batch_size, .cache_bytes = kChunk / 2, .cache_policy = policy});
      EXPECT_EQ(loader.plan().decodes_per_chunk, decodes);
      EXPECT_EQ(decodes_of_an_epoch(loader), decodes);
    }
  }
}

// The last chunk has fewer rows than the others.
TEST_F(SharedCache, that_holds_no_chunk_is_foretold_for_a_last_chunk_that_is_not_full) {
  const test::CapturedLog quiet;
  for (const auto& [samples, rows] : {std::pair(103U, 7U), {100U, 3U}, {101U, 100U}}) {
    const SampleSet set({.shape = {samples, 8, 6}, .chunk_shape = {rows, 8, 6}, .gzip = 4});
    const Dataset dataset = open(set);
    const double chunks = std::ceil(static_cast<double>(samples) / rows);
    for (const auto& [order, batch_size] :
         {std::pair("sequential", 1), {"sequential", 4}, {"sequential", 7}, {"full", 4}}) {
      SCOPED_TRACE(testing::Message() << samples << ' ' << rows << ' ' << order << ' ' << batch_size);
      DataLoader loader(dataset, {.batch_size = batch_size, .shuffle = order, .seed = 1, .cache_bytes = 1});
      const double foretold = loader.plan().decodes_per_chunk.value();
      run(loader);
      const double decodes = static_cast<double>(loader.stats().chunk_loads) / chunks;
      EXPECT_NEAR(foretold, decodes, std::string_view(order) == "full" ? 0.1 * decodes : 1e-9);
    }
  }
}

// A cache of rows keeps the chunk decoded last beside them.
TEST_F(SharedCache, of_rows_for_less_than_a_chunk_is_foretold_for_batches_that_end_within_chunks) {
  const test::CapturedLog quiet;
  for (const std::int64_t batch_size : {4, 10, 16, 30}) {
    SCOPED_TRACE(batch_size);
    DataLoader loader(
        dataset_,
        {.batch_size = batch_size, .cache_bytes = kChunk / 2, .cache_policy = CachePolicy::clairvoyant});
    EXPECT_EQ(loader.plan().decodes_per_chunk, 1.0);
    decodes_of_an_epoch(loader);
    EXPECT_EQ(decodes_of_an_epoch(loader), 1.0) << "also of a later epoch";
  }
}

TEST_F(SharedCache, is_foretold_before_the_run) {
  const test::CapturedLog quiet;
  const DataLoaderOptions options{.batch_size = 10, .shuffle = true, .cache_bytes = 3 * kChunk};
  const PlanReport report = plan(dataset_, options);
  EXPECT_EQ(report.samples, 100u);
  EXPECT_EQ(report.batches, 10u);
  EXPECT_EQ(report.chunks, 10u);
  EXPECT_EQ(report.mixing, 1.0);
  EXPECT_EQ(report.cache_bytes_fit, 10 * kChunk);
  EXPECT_EQ(report.cache_bytes_decode_once, 10 * kChunk);
  EXPECT_GT(report.decodes_per_chunk, report.clairvoyant_decodes_per_chunk);
  EXPECT_GE(report.clairvoyant_decodes_per_chunk, 0.7);
  EXPECT_TRUE(has_no_group()) << "no loader was made";

  DataLoader loader(dataset_, {.batch_size = 10, .shuffle = "chunk:3", .cache_bytes = 3 * kChunk});
  EXPECT_EQ(loader.plan().decodes_per_chunk, 1.0);
  EXPECT_EQ(loader.plan().cache_bytes_decode_once, 3 * kChunk);
  EXPECT_LT(loader.plan().mixing, 1.0);
  EXPECT_THAT(loader.plan().to_string(),
              HasSubstr("an epoch: 100 samples in 10 batches from 10 chunks; mixing 0.68"));
  EXPECT_THROW((void)plan(dataset_, {.shuffle = "chunk:11"}), OptionError);
  EXPECT_EQ(plan(open(set_), {.shuffle = true}).decodes_per_chunk, 0.0) << "all fits";
  EXPECT_EQ(plan(dataset_, {.batch_size = 30, .drop_last = true}).samples, 90u);
  const std::vector<std::int64_t> of_two_chunks = {5, 6, 95};
  EXPECT_EQ(plan(dataset_.subset(of_two_chunks), {}).cache_bytes_fit, 2 * kChunk);
}

TEST_F(SharedCache, predicts_the_share_of_each_rank) {
  const DataLoaderOptions options{
      .batch_size = 5, .shuffle = true, .seed = 1, .rank = 1, .world_size = 4, .shard = Shard::by_chunk};
  const PlanReport report = plan(dataset_, options);
  EXPECT_EQ(report.samples, 25u);
  EXPECT_EQ(report.chunks, 3u);
}

}  // namespace
}  // namespace h5feed::test
