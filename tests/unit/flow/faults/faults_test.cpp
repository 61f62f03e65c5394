// SPDX-License-Identifier: Apache-2.0
// Loaders that go on without data that cannot be read: which samples they deliver, and in which batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/loaders/planted_faults.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST_F(Faults, skip_delivers_exactly_the_good_samples_in_their_planned_batches) {
  for (const char* shuffle : {"false", "full", "chunk:3"}) {
    for (const std::int64_t workers : {0, 1, 4}) {
      SCOPED_TRACE(std::string(shuffle) + ", workers " + std::to_string(workers));
      DataLoaderOptions with = options(OnError::skip, workers);
      with.shuffle = shuffle;
      expect_skipped(deliveries_of(open(set_), with, 2), planned(with, 2));
    }
  }
}

TEST_F(Faults, replace_keeps_the_batches_full_with_the_same_samples_for_any_number_of_workers) {
  for (const char* shuffle : {"false", "full", "chunk:3"}) {
    DataLoaderOptions with = options(OnError::replace);
    with.shuffle = shuffle;
    const std::vector<Delivery> alone = deliveries_of(open(set_), with, 2);
    expect_replaced(alone, planned(with, 2));
    for (const std::int64_t workers : {1, 4}) {
      SCOPED_TRACE(std::string(shuffle) + ", workers " + std::to_string(workers));
      with.num_workers = workers;
      EXPECT_EQ(deliveries_of(open(set_), with, 2), alone);
    }
  }
}

TEST_F(Faults, replaces_a_chunk_by_others_in_each_epoch_and_by_those_of_one_chunk_at_once) {
  DataLoaderOptions with = options(OnError::replace);
  with.shuffle = false;
  with.batch_size = kFaultChunkRows;
  const std::vector<Delivery> delivered = deliveries_of(open(set_), with, 2);
  std::set<std::int64_t> chunks;
  for (const std::size_t batch : {std::size_t{17}, std::size_t{64}, std::size_t{117}, std::size_t{164}}) {
    std::set<std::int64_t> of_batch;
    for (const std::int64_t sample : delivered[batch].indices) of_batch.insert(sample / kFaultChunkRows);
    EXPECT_THAT(of_batch, SizeIs(1)) << "one chunk is decoded in its place";
    EXPECT_EQ(std::set<std::int64_t>(delivered[batch].indices.begin(), delivered[batch].indices.end()).size(),
              10u);
    chunks.insert(*of_batch.begin());
  }
  EXPECT_GT(chunks.size(), 2u) << "drawn anew for each chunk and epoch";
}

TEST_F(Faults, delivers_the_same_with_every_cache_and_way_of_reading) {
  const std::vector<Delivery> skipped = deliveries_of(open(set_), options(OnError::skip), 2);
  const std::vector<Delivery> replaced = deliveries_of(open(set_), options(OnError::replace), 2);
  for (const std::int64_t workers : {0, 3}) {
    for (const CachePolicy policy : {CachePolicy::lru, CachePolicy::clairvoyant, CachePolicy::keep_first}) {
      for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{4000}, std::uint64_t{1} << 20}) {
        SCOPED_TRACE(std::string(name_of(policy)) + " " + std::to_string(bytes) + ", workers " +
                     std::to_string(workers));
        for (const OnError on_error : {OnError::skip, OnError::replace}) {
          DataLoaderOptions with = options(on_error, workers);
          with.cache_policy = policy;
          with.cache_bytes = bytes;
          with.preload = bytes > 4000;
          EXPECT_EQ(deliveries_of(open(set_), with, 2), on_error == OnError::skip ? skipped : replaced);
        }
      }
    }
  }
}

TEST_F(Faults, four_ranks_have_as_many_batches_each_and_deliver_each_good_sample_once) {
  for (const Shard shard : {Shard::strided, Shard::contiguous, Shard::by_chunk}) {
    for (const OnError on_error : {OnError::skip, OnError::replace}) {
      std::vector<std::int64_t> all;
      std::set<std::size_t> batches;
      for (std::int64_t rank = 0; rank < 4; ++rank) {
        DataLoaderOptions with = options(on_error, rank % 3);
        with.rank = rank;
        with.world_size = 4;
        with.shard = shard;
        with.max_bad_share = 0.2;
        const std::vector<Delivery> own = deliveries_of(open(set_), with);
        batches.insert(own.size());
        for (const std::int64_t sample : samples_of(own)) all.push_back(sample);
      }
      EXPECT_THAT(batches, SizeIs(1)) << static_cast<int>(shard);
      EXPECT_TRUE(std::ranges::none_of(all, [&](std::int64_t sample) { return is_bad(sample); }));
      const std::set<std::int64_t> distinct(all.begin(), all.end());
      EXPECT_EQ(distinct.size(), 980u);
      EXPECT_EQ(all.size(), on_error == OnError::skip ? 980u : 1000u);
    }
  }
}

TEST_F(Faults, a_batch_without_a_good_sample_is_delivered_empty) {
  DataLoaderOptions with = options(OnError::skip);
  with.shuffle = false;
  with.batch_size = 5;
  DataLoader loader(open(set_), with);
  std::vector<std::uint64_t> empty;
  std::uint64_t batches = 0;
  while (const auto batch = loader.next()) {
    ++batches;
    if (batch->size() > 0) continue;
    empty.push_back(batch->number);
    EXPECT_THAT(batch->data.shape, ElementsAre(0, 1, 4, 4));
    EXPECT_TRUE(batch->data.defined());
    EXPECT_THAT(batch->target.shape, ElementsAre(0));
  }
  EXPECT_EQ(batches, loader.size());
  EXPECT_THAT(empty, ElementsAre(34, 35, 128, 129));
}

TEST_F(Faults, counts_and_reports_what_it_left_out_or_replaced) {
  for (const OnError on_error : {OnError::skip, OnError::replace}) {
    DataLoader loader(open(set_), options(on_error, 2));
    for (int epoch = 0; epoch < 2; ++epoch) rest_of_epoch(loader);
    const LoaderStats stats = loader.stats();
    EXPECT_EQ(stats.bad_chunks, 2u);
    EXPECT_EQ(stats.samples_skipped, on_error == OnError::skip ? 40u : 0u);
    EXPECT_EQ(stats.samples_replaced, on_error == OnError::skip ? 0u : 40u);
    EXPECT_EQ(stats.samples, on_error == OnError::skip ? 1960u : 2000u);
    EXPECT_EQ(stats.errors, 0u);
    EXPECT_THAT(loader.report(),
                HasSubstr(on_error == OnError::skip ? "bad data: 2 chunks; samples left out 40, replaced 0"
                                                    : "bad data: 2 chunks; samples left out 0, replaced 40"));
  }
}

TEST_F(Faults, fail_is_the_default_and_throws_for_each_batch) {
  DataLoader loader(open(set_), {.batch_size = 10});
  int thrown = 0;
  for (int batch = 0; batch < 100; ++batch)
    thrown += refusal_of<ChunkError>([&] { loader.next(); }) != "accepted";
  EXPECT_EQ(thrown, 2);
  EXPECT_EQ(loader.next(), std::nullopt);
}

TEST_F(Faults, resuming_in_mid_epoch_delivers_the_same_and_counts_the_quota_anew) {
  for (const OnError on_error : {OnError::skip, OnError::replace}) {
    DataLoaderOptions with = options(on_error, 2);
    with.cache_policy = CachePolicy::clairvoyant;
    with.cache_bytes = 4000;
    const std::vector<Delivery> whole = deliveries_of(open(set_), with, 2);
    for (const int stop : {1, 20, 45, 62}) {
      LoaderState state;
      {
        DataLoader loader(open(set_), with);
        for (int batch = 0; batch < stop; ++batch) loader.next();
        state = loader.state();
      }
      with.num_workers = stop % 3;
      DataLoader resumed(open(set_), with);
      resumed.restore(state);
      std::vector<Delivery> rest = rest_of_epoch(resumed);
      for (Delivery& delivery : rest_of_epoch(resumed)) rest.push_back(std::move(delivery));
      EXPECT_EQ(rest, std::vector(whole.begin() + stop, whole.end())) << stop;
    }
  }
  // 20 samples are bad, 15 are allowed: neither part of the epoch has so many.
  DataLoaderOptions with = options(OnError::skip);
  with.shuffle = false;
  with.max_bad_share = 0.015;
  DataLoader loader(open(set_), with);
  for (int batch = 0; batch < 30; ++batch) loader.next();
  DataLoader resumed(open(set_), with);
  resumed.restore(loader.state());
  rest_of_epoch(resumed);
}

TEST_F(Faults, repeats_of_a_batch_are_of_the_same_samples) {
  for (const OnError on_error : {OnError::skip, OnError::replace}) {
    DataLoaderOptions with = options(on_error);
    with.echo.factor = 2;
    with.augment = Augment{.horizontal_flip = 0.5};
    const std::vector<Delivery> alone = deliveries_of(open(set_), with);
    const std::vector<Delivery> once = deliveries_of(open(set_), options(on_error));
    ASSERT_EQ(alone.size(), 2 * once.size());
    for (std::size_t batch = 0; batch < alone.size(); ++batch) {
      EXPECT_EQ(alone[batch].indices, once[batch / 2].indices);
      EXPECT_EQ(alone[batch].transforms.size(), alone[batch].indices.size());
    }
    with.num_workers = 3;
    EXPECT_EQ(deliveries_of(open(set_), with), alone);
  }
}

TEST_F(Faults, a_subset_and_a_sampler_are_replaced_by_their_own_samples) {
  std::vector<std::int64_t> chosen;
  for (std::int64_t sample = 0; sample < kFaultSamples; sample += 3) chosen.push_back(sample);
  const Dataset subset = open(set_).subset(chosen);
  const auto in_subset = [](std::int64_t sample) { return sample % 3 == 0; };
  for (const bool sampled : {false, true}) {
    DataLoaderOptions with = options(OnError::replace);
    if (sampled) {
      with.shuffle = false;
      with.sampler = std::make_shared<SubsetRandomSampler>(chosen);
    }
    const Dataset dataset = sampled ? open(set_) : subset;
    const std::vector<Delivery> alone = deliveries_of(dataset, with, 2);
    const std::vector<std::int64_t> samples = samples_of(alone);
    EXPECT_EQ(samples.size(), 2 * chosen.size());
    EXPECT_TRUE(std::ranges::all_of(samples, in_subset));
    EXPECT_TRUE(std::ranges::none_of(samples, [&](std::int64_t sample) { return is_bad(sample); }));
    with.num_workers = 3;
    EXPECT_EQ(deliveries_of(dataset, with, 2), alone);
  }
  DataLoaderOptions with = options(OnError::replace, 2);
  with.batch_size = 1;
  with.max_bad_share = 1;
  with.shuffle = false;
  with.batch_sampler = make_batch_sampler(
      [](std::uint64_t) {
        return std::vector<std::vector<std::int64_t>>{{170, 3, 641}, {5, 4}, {173, 9, 2}};
      },
      3);
  for (const Delivery& delivery : deliveries_of(open(set_), with, 2)) {
    for (const std::int64_t sample : delivery.indices)
      EXPECT_THAT((std::set<std::int64_t>{2, 3, 4, 5, 9}), testing::Contains(sample));
  }
}

TEST_F(Faults, origins_are_those_of_the_delivered_samples) {
  DataLoaderOptions with = options(OnError::replace, 2);
  with.provenance = true;
  DataLoader loader(open(set_), with);
  while (const auto batch = loader.next()) {
    ASSERT_EQ(batch->origins.size(), batch->indices.size());
    for (std::size_t i = 0; i < batch->indices.size(); ++i)
      EXPECT_EQ(batch->origins[i].row, batch->indices[i]);
  }
}

TEST_F(Faults, single_samples_are_replaced_and_skip_needs_batches) {
  DataLoaderOptions with = options(OnError::replace, 2);
  with.batch_size.reset();
  EXPECT_THAT(deliveries_of(open(set_), with), SizeIs(kFaultSamples));
  with.on_error = OnError::skip;
  EXPECT_EQ(refusal<OptionError>(open(set_), with),
            "on_error = skip leaves samples out of batches, and without batch_size there are none; use "
            "on_error = replace");
}

}  // namespace
}  // namespace h5feed::test
