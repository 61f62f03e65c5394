// SPDX-License-Identifier: Apache-2.0
// Runs with an echo that stop anywhere and go on with other batch sizes, ranks and workers, again and again:
// every sample is delivered as often as the factor says, each repeat once.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "support/captured_log.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using Random = std::mt19937_64;
// Deliveries of each (sample, repeat), of all ranks and runs.
using Count = std::map<std::pair<std::int64_t, std::int64_t>, int>;

std::int64_t draw(Random& random, std::int64_t lowest, std::int64_t highest) {
  return std::uniform_int_distribution<std::int64_t>(lowest, highest)(random);
}

const Dataset& echoed_set() {
  static const test::SampleSet set({.shape = {103, 4, 4}, .chunk_shape = {10, 4, 4}, .gzip = 1});
  static const Dataset opened = test::open(set);
  return opened;
}

// What a training job is, whatever its size: a run may change the rest.
struct Order {
  const char* shuffle = "full";
  std::int64_t factor = 2;
  Shard shard = Shard::strided;
  Uneven uneven = Uneven::exact;
};

struct Size {
  std::int64_t batch_size = 1;
  std::int64_t world_size = 1;
  std::int64_t workers = 0;
  CachePolicy policy = CachePolicy::lru;
};

Size any_size(Random& random, std::optional<std::int64_t> world_size) {
  return {.batch_size = draw(random, 1, 60),
          .world_size = world_size ? *world_size : draw(random, 1, 4),
          .workers = draw(random, 0, 2),
          .policy = draw(random, 0, 3) == 0 ? CachePolicy::clairvoyant : CachePolicy::lru};
}

class Ranks {
 public:
  Ranks(const Order& order, const Size& size) {
    for (std::int64_t rank = 0; rank < size.world_size; ++rank) {
      DataLoaderOptions options{.batch_size = size.batch_size,
                                .shuffle = order.shuffle,
                                .seed = 9,
                                .num_workers = size.workers,
                                .rank = rank,
                                .world_size = size.world_size,
                                .shard = order.shard,
                                .uneven = order.uneven,
                                .cache_bytes = 4 * 160,
                                .cache_policy = size.policy};
      options.echo = {.factor = order.factor};
      ranks_.push_back(std::make_unique<DataLoader>(echoed_set(), options));
    }
  }

  void restore(const std::string& saved) {
    for (const auto& rank : ranks_) {
      LoaderState state = LoaderState::from_bytes(saved);
      rank->restore(state);
      state.world_size = static_cast<std::int64_t>(ranks_.size());
      EXPECT_EQ(rank->state(), state) << "nothing moved yet";
    }
  }

  std::string save() const {
    std::string saved = ranks_.front()->state().to_bytes();
    for (const auto& rank : ranks_) EXPECT_EQ(rank->state().to_bytes(), saved) << "the same on every rank";
    return saved;
  }

  std::uint64_t epoch() const { return ranks_.front()->state().epoch; }

  void deliver(Count& count) {
    std::optional<std::int64_t> repeat;
    for (const auto& rank : ranks_) {
      const auto batch = rank->next();
      ASSERT_TRUE(batch) << "ranks have equally many batches";
      ASSERT_EQ(batch->repeat, repeat.value_or(batch->repeat)) << "and are at the same repeat";
      repeat = batch->repeat;
      for (const std::int64_t sample : batch->indices) ++count[{sample, batch->repeat}];
    }
  }

 private:
  std::vector<std::unique_ptr<DataLoader>> ranks_;
};

// One epoch in several runs; `world_size` unset: any, changing from run to run.
Count one_epoch(const Order& order, std::optional<std::int64_t> world_size, Random& random) {
  Count count;
  std::string saved;
  while (true) {
    Ranks run(order, any_size(random, world_size));
    if (!saved.empty()) run.restore(saved);
    for (std::int64_t left = draw(random, 0, 9); left >= 0; --left) {
      run.deliver(count);
      if (testing::Test::HasFatalFailure() || run.epoch() > 0) return count;
    }
    saved = run.save();
  }
}

TEST(ResumedEcho, delivers_every_sample_as_often_as_the_factor_says_whatever_the_batch_and_world_sizes) {
  const test::CapturedLog quiet;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const Order order{.shuffle = draw(random, 0, 1) == 0 ? "full" : "chunk:3", .factor = draw(random, 1, 4)};
    const Count count = one_epoch(order, std::nullopt, random);
    Count expected;
    for (std::int64_t sample = 0; sample < 103; ++sample) {
      for (std::int64_t repeat = 0; repeat < order.factor; ++repeat) expected[{sample, repeat}] = 1;
    }
    ASSERT_EQ(count, expected) << "seed " << seed;
  }
}

TEST(ResumedEcho, delivers_what_an_uninterrupted_run_does_in_the_other_modes_of_sharding) {
  const test::CapturedLog quiet;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    constexpr Shard kShards[] = {Shard::strided, Shard::contiguous, Shard::by_chunk};
    constexpr Uneven kUneven[] = {Uneven::exact, Uneven::pad, Uneven::drop};
    const Order order{.shuffle = draw(random, 0, 1) == 0 ? "full" : "chunk:3",
                      .factor = draw(random, 1, 4),
                      .shard = kShards[draw(random, 0, 2)],
                      .uneven = kUneven[draw(random, 0, 2)]};
    const std::int64_t world_size = draw(random, 1, 4);
    Count expected;
    Ranks whole(order, {.batch_size = 7, .world_size = world_size});
    while (whole.epoch() == 0) whole.deliver(expected);
    ASSERT_EQ(one_epoch(order, world_size, random), expected) << "seed " << seed;
  }
}

// The cases in which it was found: repeats were counted for the batch of the new size.
TEST(ResumedEcho, is_complete_where_batches_grow_shrink_and_move_to_fewer_ranks) {
  const test::CapturedLog quiet;
  const Order order{.factor = 2};
  for (const auto& [before, after] : {std::pair<Size, Size>{{32}, {48}}, {{32}, {16}}, {{32, 4}, {48, 2}}}) {
    Count count;
    Ranks first(order, before);
    first.deliver(count);
    Ranks second(order, after);
    second.restore(first.save());
    while (second.epoch() == 0) second.deliver(count);
    EXPECT_EQ(count.size(), 206u);
    for (const auto& [delivery, times] : count) EXPECT_EQ(times, 1) << delivery.first;
  }
}

}  // namespace
}  // namespace h5feed::test
