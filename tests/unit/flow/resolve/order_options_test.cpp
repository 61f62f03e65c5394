// SPDX-License-Identifier: Apache-2.0
// Options about order and ranks: what is refused, and with which words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/captured_log.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

class OrderOptions : public testing::Test {
 protected:
  std::string refused(const DataLoaderOptions& options) const {
    return test::refusal<OptionError>(dataset_, options);
  }
  static std::shared_ptr<const Sampler> some_sampler() {
    return make_sampler([](std::uint64_t) { return std::vector<std::int64_t>{1, 2, 3}; });
  }
  static std::shared_ptr<const BatchSampler> some_batch_sampler() {
    return make_batch_sampler(
        [](std::uint64_t) {
          return std::vector<std::vector<std::int64_t>>{{1, 2}};
        },
        2);
  }

  SampleSet set_{gzip_set()};  // 100 samples in 10 chunks
  Dataset dataset_ = open(set_);
};

TEST_F(OrderOptions, refuse_more_chunks_in_play_than_there_are) {
  EXPECT_THAT(
      refused({.shuffle = "chunk:11"}),
      HasSubstr("shuffle \"chunk:11\": the data has 10 chunks; use \"chunk:10\" or less, or \"full\""));
  EXPECT_EQ(refused({.shuffle = "chunk:10"}), "accepted");
  const std::vector<std::int64_t> of_two_chunks = {5, 6, 95};
  EXPECT_THAT(test::refusal<OptionError>(dataset_.subset(of_two_chunks), {.shuffle = "chunk:3"}),
              HasSubstr("the data has 2 chunks"));
}

TEST_F(OrderOptions, refuse_ranks_that_cannot_be) {
  EXPECT_THAT(refused({.seed = 1, .rank = 2, .world_size = 2}),
              HasSubstr("rank must be 0 to world_size - 1 = 1; got 2"));
  EXPECT_THAT(refused({.rank = -1}), HasSubstr("got -1"));
  EXPECT_THAT(refused({.world_size = 0}), HasSubstr("world_size must be 1 to"));
  EXPECT_THAT(refused({.world_size = 2}), HasSubstr("seed must be set with world_size 2"));
  EXPECT_EQ(refused({.seed = 1, .rank = 1, .world_size = 2}), "accepted");
}

TEST_F(OrderOptions, refuse_more_ranks_than_chunks_where_ranks_own_chunks) {
  EXPECT_THAT(refused({.seed = 1, .world_size = 11, .shard = Shard::by_chunk}),
              HasSubstr("cannot distribute 10 chunks over 11 ranks; use strided, or at most 10 ranks"));
  EXPECT_EQ(refused({.seed = 1, .world_size = 10, .shard = Shard::by_chunk}), "accepted");
}

TEST_F(OrderOptions, exclude_each_other_as_in_pytorch) {
  EXPECT_THAT(refused({.shuffle = true, .sampler = some_sampler()}),
              HasSubstr("sampler option is mutually exclusive with shuffle"));
  const std::string exclusive =
      "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last";
  EXPECT_THAT(refused({.batch_size = 2, .batch_sampler = some_batch_sampler()}), HasSubstr(exclusive));
  EXPECT_THAT(refused({.batch_sampler = some_batch_sampler(), .shuffle = true}), HasSubstr(exclusive));
  EXPECT_THAT(refused({.batch_sampler = some_batch_sampler(), .sampler = some_sampler()}),
              HasSubstr(exclusive));
  EXPECT_THAT(refused({.drop_last = true, .batch_sampler = some_batch_sampler()}), HasSubstr(exclusive));
  EXPECT_THAT(refused({.batch_sampler = some_batch_sampler(), .shard = Shard::contiguous}),
              HasSubstr("leave shard at strided"));
  EXPECT_THAT(refused({.sampler = some_sampler(), .shard = Shard::by_chunk}), HasSubstr("use strided"));
  EXPECT_EQ(refused({.sampler = some_sampler()}), "accepted");
  EXPECT_EQ(refused({.batch_sampler = some_batch_sampler()}), "accepted");
}

TEST_F(OrderOptions, refuse_a_cache_that_cannot_foresee_a_sampler) {
  EXPECT_THAT(
      refused({.sampler = some_sampler(), .cache_bytes = 1000, .cache_policy = CachePolicy::clairvoyant}),
      HasSubstr("not known for samplers"));
}

TEST_F(OrderOptions, refuse_single_samples_where_a_rank_would_come_short) {
  DataLoaderOptions options{.batch_size = std::nullopt, .seed = 1, .world_size = 3};
  EXPECT_THAT(refused(options), HasSubstr("uneven = pad or drop"));
  EXPECT_THAT(refused({.batch_size = std::nullopt, .seed = 1, .world_size = 2, .shard = Shard::by_chunk}),
              HasSubstr("uneven = pad or drop"));
  options.uneven = Uneven::pad;
  EXPECT_EQ(refused(options), "accepted");
}

TEST_F(OrderOptions, bound_prefetching_by_bytes) {
  const DataLoaderOptions four_ahead{.batch_size = 10, .num_workers = 2};
  EXPECT_EQ(DataLoader(dataset_, four_ahead).options().prefetch_batches, 4u);
  DataLoaderOptions bounded = four_ahead;
  bounded.prefetch_bytes = 2 * 10 * (48 + 8);
  EXPECT_EQ(DataLoader(dataset_, bounded).options().prefetch_batches, 2u);
  bounded.prefetch_bytes = 559;
  EXPECT_THAT(refused(bounded), HasSubstr("holds no batch of 10 × 56 B; use at least 1 MiB"));
  bounded.num_workers = 0;
  EXPECT_THAT(refused(bounded), HasSubstr("prefetch_bytes needs workers"));
}

TEST_F(OrderOptions, say_when_a_sampler_gave_no_sample) {
  DataLoader loader(
      dataset_,
      {.batch_size = 2,
       .sampler = make_sampler([](std::uint64_t) { return std::vector<std::int64_t>{1, 2, 100, 3, 4, 5}; }),
       .num_workers = 2});
  EXPECT_EQ(loader.next().value().indices, (std::vector<std::int64_t>{1, 2}));
  EXPECT_THROW(loader.next(), OptionError);
  EXPECT_EQ(loader.next().value().indices, (std::vector<std::int64_t>{4, 5})) << "the loader goes on";
  EXPECT_FALSE(loader.next());
}

TEST_F(OrderOptions, deliver_batches_larger_than_the_dataset_when_a_sampler_repeats) {
  const std::vector<double> weights(100, 1.0);
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(dataset_, {.batch_size = 250,
                                 .sampler = std::make_shared<WeightedRandomSampler>(weights, 600),
                                 .seed = 4,
                                 .num_workers = workers});
    std::vector<std::int64_t> sizes;
    for (Batch& batch : loader) {
      sizes.push_back(batch.size());
      for (std::size_t i = 0; i < batch.indices.size(); ++i) {
        ASSERT_EQ(batch.target.as<std::int64_t>()[i], set_.label(batch.indices[i]));
      }
    }
    EXPECT_EQ(sizes, (std::vector<std::int64_t>{250, 250, 100}));
  }
}

TEST_F(OrderOptions, deliver_the_batches_of_a_batch_sampler) {
  const std::vector<std::vector<std::int64_t>> batches = {{99, 0, 5}, {7}, {50, 51}};
  DataLoader loader(dataset_, {.batch_sampler = make_batch_sampler([&](std::uint64_t) { return batches; }, 3),
                               .num_workers = 2});
  EXPECT_EQ(loader.size(), 3u);
  std::vector<std::vector<std::int64_t>> delivered;
  for (Batch& batch : loader) {
    EXPECT_EQ(batch.data.shape.front(), batch.size());
    delivered.push_back(batch.indices);
  }
  EXPECT_EQ(delivered, batches);
}

// Says a size of its own, and another one when it is asked again.
class GrowingBatches final : public BatchSampler {
 public:
  explicit GrowingBatches(std::int64_t first) : size_(first) {}
  std::shared_ptr<const EpochBatches> epoch(std::uint64_t, std::uint64_t) const override {
    struct Large final : EpochBatches {
      std::uint64_t size() const noexcept override { return 1; }
      std::vector<std::int64_t> at(std::uint64_t) const override { return std::vector<std::int64_t>(90, 1); }
    };
    return std::make_shared<const Large>();
  }
  std::int64_t max_batch_size() const noexcept override { return std::exchange(size_, 1000); }

 private:
  mutable std::int64_t size_;
};

TEST_F(OrderOptions, hold_a_batch_sampler_to_the_size_it_first_said) {
  DataLoader loader(dataset_, {.batch_sampler = std::make_shared<GrowingBatches>(4)});
  EXPECT_THROW(loader.next(), OptionError);
  for (const std::int64_t size : {std::int64_t{0}, std::int64_t{1} << 61, std::int64_t{-1}}) {
    EXPECT_THAT(refused({.batch_sampler = std::make_shared<GrowingBatches>(size)}),
                HasSubstr("max_batch_size() of the batch sampler must be 1 to 2147483648"));
  }
  EXPECT_THAT(refused({.batch_sampler = std::make_shared<GrowingBatches>(std::int64_t{1} << 31)}),
              HasSubstr("memory_budget_bytes"));
}

TEST_F(OrderOptions, refuse_a_sampler_that_gives_nothing) {
  class Nothing final : public Sampler {
    std::shared_ptr<const EpochSamples> epoch(std::uint64_t, std::uint64_t) const override { return nullptr; }
  };
  EXPECT_THAT(refused({.sampler = std::make_shared<Nothing>()}),
              HasSubstr("the sampler gave nothing (null) for epoch 0"));
}

TEST_F(OrderOptions, refuse_a_sampler_with_an_epoch_of_negative_size) {
  struct Negative final : EpochSamples {
    std::int64_t size() const noexcept override { return -1; }
    std::int64_t at(std::int64_t) const override { return 0; }
  };
  class Wrong final : public Sampler {
    std::shared_ptr<const EpochSamples> epoch(std::uint64_t, std::uint64_t) const override {
      return std::make_shared<const Negative>();
    }
  };
  EXPECT_THAT(
      refused({.sampler = std::make_shared<Wrong>()}),
      HasSubstr("the sampler gave -1 samples for epoch 0; size() of its EpochSamples must be at least 0"));
}

TEST_F(OrderOptions, let_a_sampler_read_the_dataset_it_samples) {
  const auto hard_samples = make_sampler([this](std::uint64_t) {
    std::vector<std::int64_t> chosen;
    DataLoader scan(dataset_, {.batch_size = 50});
    for (Batch& batch : scan) chosen.push_back(batch.indices.back());
    return chosen;
  });
  DataLoader loader(dataset_, {.batch_size = 2, .sampler = hard_samples, .num_workers = 1});
  EXPECT_EQ(loader.next().value().indices, (std::vector<std::int64_t>{49, 99}));
  EXPECT_EQ(plan(dataset_, {.sampler = hard_samples}).samples, 2u);
}

TEST_F(OrderOptions, warn_of_epochs_without_batches) {
  const test::CapturedLog log;
  DataLoader loader(dataset_, {.batch_size = 101, .drop_last = true});
  EXPECT_FALSE(loader.next());
  EXPECT_THAT(log.lines(),
              testing::Contains(HasSubstr("epochs have no batches: a rank has 100 of the samples")));
  DataLoader of_rank(dataset_,
                     {.batch_size = 1, .seed = 1, .rank = 3, .world_size = 101, .uneven = Uneven::drop});
  EXPECT_FALSE(of_rank.next());
  EXPECT_THAT(log.lines(),
              testing::Contains(HasSubstr("one of the 101 ranks has no samples; use fewer ranks")));
}

TEST_F(OrderOptions, know_a_listed_sampler_in_a_state) {
  const auto with = [&](std::vector<std::int64_t> samples) {
    return std::make_unique<DataLoader>(
        dataset_, DataLoaderOptions{.sampler = make_sampler([=](std::uint64_t) { return samples; })});
  };
  const LoaderState state = with({1, 2, 3})->state();
  with({1, 2, 3})->restore(state);
  EXPECT_THROW(with({1, 2, 4})->restore(state), StateError);
}

TEST_F(OrderOptions, predict_orders_that_do_not_follow_the_chunks) {
  const test::CapturedLog quiet;
  std::vector<std::int64_t> scattered;
  for (std::int64_t i = 0; i < 100; ++i) scattered.push_back(i * 37 % 100);
  const Dataset subset = dataset_.subset(scattered);
  DataLoaderOptions options{.batch_size = 5, .cache_bytes = 2 * 480};
  EXPECT_GT(plan(subset, options).decodes_per_chunk.value(), 3.0);
  EXPECT_EQ(plan(subset, options).clairvoyant_decodes_per_chunk, std::nullopt);
  options.cache_policy = CachePolicy::clairvoyant;
  EXPECT_THAT(test::refusal<OptionError>(subset, options), HasSubstr("unordered subsets"));
  const DataLoaderOptions ranks{.batch_size = 5,
                                .shuffle = true,
                                .seed = 1,
                                .world_size = 4,
                                .shard = Shard::contiguous,
                                .cache_bytes = 2 * 480};
  EXPECT_EQ(plan(dataset_, ranks).chunks, 10u) << "a run of a full shuffle comes from all chunks";
  EXPECT_GT(plan(dataset_, ranks).decodes_per_chunk.value(), 1.5);
}

TEST_F(OrderOptions, throw_from_next_what_a_sampler_throws) {
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(dataset_,
                      {.sampler = make_sampler([](std::uint64_t epoch) -> std::vector<std::int64_t> {
                         if (epoch == 1) throw std::runtime_error("no list for epoch 1");
                         return {4};
                       }),
                       .num_workers = workers});
    EXPECT_EQ(loader.next().value().indices.front(), 4);
    EXPECT_FALSE(loader.next());
    EXPECT_THROW(loader.next(), std::runtime_error);
    loader.set_epoch(0);
    loader.start_epoch();
    loader.set_epoch(1);
    EXPECT_THROW(loader.start_epoch(), std::runtime_error) << "with an epoch running";
    EXPECT_THROW(loader.next(), std::runtime_error) << "which is over";
    loader.set_epoch(2);
    EXPECT_EQ(loader.next().value().indices.front(), 4);
  }
}

}  // namespace
}  // namespace h5feed::test
