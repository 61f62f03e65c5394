// SPDX-License-Identifier: Apache-2.0
// Random options, ends and faults: no sample is lost or doubled but for bad ones, and nothing hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "support/files/flaky_source.hpp"
#include "support/loaders/planted_faults.hpp"

namespace h5feed::test {
namespace {

class FaultStress : public Faults {
 protected:
  std::int64_t number(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random_);
  }

  DataLoaderOptions draw() {
    DataLoaderOptions options{.batch_size = number(1, 60)};
    options.on_error = number(0, 1) == 0 ? OnError::skip : OnError::replace;
    options.max_bad_share = 1;
    options.shuffle = std::array<Shuffle, 3>{false, true, "chunk:5"}[static_cast<std::size_t>(number(0, 2))];
    options.seed = static_cast<std::uint64_t>(number(0, 1000));
    options.drop_last = number(0, 3) == 0;
    options.cache_bytes = static_cast<std::uint64_t>(number(0, 20'000));
    options.cache_policy = std::array{CachePolicy::lru, CachePolicy::clairvoyant,
                                      CachePolicy::keep_first}[static_cast<std::size_t>(number(0, 2))];
    options.echo.factor = number(0, 4) == 0 ? 2 : 1;
    options.world_size = number(1, 3);
    options.rank = number(0, options.world_size - 1);
    options.shard = std::array{Shard::strided, Shard::contiguous,
                               Shard::by_chunk}[static_cast<std::size_t>(number(0, 2))];
    return options;
  }

  std::mt19937 random_{1};
};

TEST_F(FaultStress, random_options_deliver_what_one_thread_delivers) {
  const Dataset dataset = open(set_);
  for (int round = 0; round < 60; ++round) {
    DataLoaderOptions with = draw();
    SCOPED_TRACE(round);
    const std::vector<Delivery> alone = deliveries_of(dataset, with, 2);
    with.num_workers = number(1, 5);
    with.prefetch_factor = number(1, 6);
    with.io_depth = number(0, 8);
    EXPECT_TRUE(deliveries_of(dataset, with, 2) == alone);
  }
}

TEST_F(FaultStress, epochs_and_loaders_may_end_while_faults_are_met) {
  const Dataset dataset = open(set_);
  for (int round = 0; round < 150; ++round) {
    DataLoaderOptions with = draw();
    with.num_workers = number(0, 5);
    with.in_order = number(0, 1) == 0;
    DataLoader loader(dataset, with);
    for (std::int64_t batch = number(0, 20); batch > 0; --batch) loader.next();
    if (number(0, 1) == 0) continue;
    loader.set_epoch(static_cast<std::uint64_t>(number(0, 5)));
    loader.start_epoch();
    std::vector<std::int64_t> samples;
    while (const auto batch = loader.next()) {
      if (batch->repeat == 0) samples.insert(samples.end(), batch->indices.begin(), batch->indices.end());
    }
    EXPECT_TRUE(std::ranges::none_of(samples, [&](std::int64_t sample) { return is_bad(sample); }));
    if (with.on_error == OnError::skip) {
      EXPECT_EQ(std::set<std::int64_t>(samples.begin(), samples.end()).size(), samples.size());
    }
  }
}

// Faults that come and go: each sample arrives at most once, and no batch fails.
TEST_F(FaultStress, reads_that_fail_at_random_lose_no_batch) {
  for (const bool direct : {false, true}) {
    const SampleSet plain({.shape = {kFaultSamples, 4, 4}});
    std::shared_ptr<FlakySource> flaky;
    const Dataset dataset =
        DatasetAccess::open({.files = {direct ? plain.path() : set_.path()}, .data = "images"},
                            [&](std::shared_ptr<const ByteSource> source) {
                              flaky = std::make_shared<FlakySource>(std::move(source), 0);
                              return flaky;
                            });
    for (int round = 0; round < 20; ++round) {
      DataLoaderOptions with = draw();
      with.num_workers = number(0, 4);
      with.on_error = OnError::skip;
      with.echo.factor = 1;
      if (direct) {
        with.shard = Shard::strided;  // there is one chunk
        with.shuffle = true;
        with.cache_policy = CachePolicy::lru;
        with.row_reads = RowReads::always;
      }
      DataLoader loader(dataset, with);
      for (int epoch = 0; epoch < 2; ++epoch) {
        std::vector<std::int64_t> samples;
        std::uint64_t batches = 0;
        flaky->fail_next(3);
        while (const auto batch = loader.next()) {
          ++batches;
          if (number(0, 9) == 0) flaky->fail_next(2);
          samples.insert(samples.end(), batch->indices.begin(), batch->indices.end());
        }
        EXPECT_EQ(batches, loader.size());
        EXPECT_EQ(std::set<std::int64_t>(samples.begin(), samples.end()).size(), samples.size());
        EXPECT_FALSE(samples.empty());
      }
      EXPECT_EQ(loader.stats().errors, 0u);
    }
  }
}

}  // namespace
}  // namespace h5feed::test
