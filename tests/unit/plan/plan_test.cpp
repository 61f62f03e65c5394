// SPDX-License-Identifier: Apache-2.0
// The order of samples: golden values, multisets, windows, ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "flow/chunks/look_ahead.hpp"
#include "h5feed/error.hpp"
#include "plan/epoch_plan.hpp"
#include "plan/permutation.hpp"
#include "plan/whole_order.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::uint64_t> first_of(const Permutation& permutation, std::uint64_t count) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < count; ++i) values.push_back(permutation.at(i));
  return values;
}

// These pin the order that users' runs depend on. They may never change within a major version.
TEST(PermutationGolden, keeps_its_sequence) {
  EXPECT_THAT(first_of(Permutation(10, 1), 8), ElementsAre(8, 5, 2, 6, 9, 7, 4, 3));
  EXPECT_THAT(first_of(Permutation(1000, 7), 8), ElementsAre(940, 156, 440, 106, 369, 389, 376, 556));
  EXPECT_THAT(first_of(Permutation(60000, 42), 8),
              ElementsAre(56269, 42145, 22662, 13386, 49400, 27493, 18596, 18398));
  EXPECT_THAT(first_of(Permutation(1'000'000'000'000, 3), 4),
              ElementsAre(306443056171, 944551150743, 623134432395, 89769605432));
  EXPECT_EQ(mix_key(0, 0, 0), 0xfbe988335f36c931);
  EXPECT_EQ(mix_key(7, 2, 3), 0x26eff3da4104f61f);
}

TEST(PlanGolden, keeps_its_order) {
  const auto first_batch = [](const char* shuffle, std::uint64_t epoch) {
    return EpochPlan(
               {.num_samples = 95, .rows_per_chunk = 10, .shuffle = shuffle, .seed = 7, .batch_size = 8},
               epoch)
        .batch(0);
  };
  EXPECT_THAT(first_batch("sequential", 1), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(first_batch("full", 0), ElementsAre(9, 27, 17, 1, 83, 44, 18, 34));
  EXPECT_THAT(first_batch("full", 1), ElementsAre(50, 12, 14, 73, 55, 45, 19, 92));
  EXPECT_THAT(first_batch("chunk:3", 0), ElementsAre(65, 61, 16, 17, 62, 64, 69, 13));
  EXPECT_THAT(first_batch("chunk:3", 1), ElementsAre(62, 18, 49, 10, 65, 67, 60, 13));
}

class PermutationSizes : public testing::TestWithParam<std::uint64_t> {};

TEST_P(PermutationSizes, visits_every_value_once_and_inverts) {
  const std::uint64_t n = GetParam();
  for (const std::uint64_t key : {0ull, 1ull, ~0ull}) {
    const Permutation permutation(n, key);
    std::vector<bool> seen(n, false);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t value = permutation.at(i);
      ASSERT_LT(value, n);
      ASSERT_FALSE(seen[value]);
      seen[value] = true;
      ASSERT_EQ(permutation.position_of(value), i);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, PermutationSizes,
                         testing::Values(1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 65, 1000, 4096, 4097, 60000));

// Chi-squared over many keys: where a value lands must not depend on the value.
TEST(Permutation, spreads_every_value_over_all_positions) {
  constexpr std::uint64_t kN = 16;
  constexpr int kKeys = 20000;
  std::vector<std::vector<int>> counts(kN, std::vector<int>(kN, 0));
  for (int key = 0; key < kKeys; ++key) {
    const Permutation permutation(kN, mix_key(99, 0, static_cast<std::uint64_t>(key)));
    for (std::uint64_t i = 0; i < kN; ++i) ++counts[i][permutation.at(i)];
  }
  const double expected = static_cast<double>(kKeys) / kN;
  double chi2 = 0;
  for (const auto& row : counts) {
    for (const int count : row) chi2 += (count - expected) * (count - expected) / expected;
  }
  // 225 degrees of freedom: mean 225, standard deviation 21.2. Six deviations never happen by chance.
  EXPECT_LT(chi2, 225 + 6 * 21.2);
}

TEST(Permutation, leaves_neighbours_apart) {
  constexpr std::uint64_t kN = 100000;
  const Permutation permutation(kN, 5);
  double distance = 0;
  for (std::uint64_t i = 0; i + 1 < kN; ++i) {
    distance += std::abs(static_cast<double>(permutation.at(i)) - static_cast<double>(permutation.at(i + 1)));
  }
  // Two random values of 0 … n−1 are n/3 apart on average.
  EXPECT_NEAR(distance / kN / (kN / 3.0), 1.0, 0.02);
}

std::vector<std::int64_t> whole_epoch(const PlanSpec& spec, std::uint64_t epoch) {
  const EpochPlan plan(spec, epoch);
  std::vector<std::int64_t> samples;
  for (std::uint64_t b = 0; b < plan.num_batches(); ++b) {
    const auto batch = plan.batch(b);
    samples.insert(samples.end(), batch.begin(), batch.end());
  }
  return samples;
}

std::vector<std::int64_t> iota(std::uint64_t n) {
  std::vector<std::int64_t> all(n);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(EpochPlan, delivers_every_sample_once_in_every_mode) {
  for (const char* shuffle :
       {"sequential", "full", "chunk:1", "chunk:2", "chunk:3", "chunk:7", "chunk:1000"}) {
    for (const std::uint64_t samples : {1u, 2u, 9u, 10u, 11u, 95u, 100u, 101u}) {
      for (const std::uint64_t rows : {1u, 3u, 10u, 200u}) {
        for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
          auto order = whole_epoch({.num_samples = samples,
                                    .rows_per_chunk = rows,
                                    .shuffle = shuffle,
                                    .seed = 3,
                                    .batch_size = 4},
                                   epoch);
          std::ranges::sort(order);
          ASSERT_EQ(order, iota(samples)) << shuffle << " samples " << samples << " rows " << rows;
        }
      }
    }
  }
}

TEST(EpochPlan, orders_epochs_and_seeds_differently) {
  std::set<std::vector<std::int64_t>> orders;
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      for (const char* shuffle : {"full", "chunk:4"}) {
        orders.insert(whole_epoch(
            {.num_samples = 200, .rows_per_chunk = 10, .shuffle = shuffle, .seed = seed, .batch_size = 7},
            epoch));
      }
    }
  }
  EXPECT_EQ(orders.size(), 18u);
}

TEST(EpochPlan, keeps_chunk_windows_together) {
  // 20 chunks of 10 rows, windows of 4: each run of 40 samples comes from 4 chunks.
  const auto order = whole_epoch(
      {.num_samples = 200, .rows_per_chunk = 10, .shuffle = "chunk:4", .seed = 1, .batch_size = 16}, 0);
  for (std::size_t window = 0; window < 5; ++window) {
    std::set<std::int64_t> chunks;
    bool in_file_order = true;
    for (std::size_t i = 0; i < 40; ++i) {
      chunks.insert(order[window * 40 + i] / 10);
      if (i > 0) in_file_order &= order[window * 40 + i] > order[window * 40 + i - 1];
    }
    EXPECT_EQ(chunks.size(), 4u);
    EXPECT_FALSE(in_file_order);
  }
}

TEST(WholeOrder, predicts_which_chunks_positions_need) {
  for (const char* shuffle : {"sequential", "chunk:1", "chunk:3", "chunk:16", "full"}) {
    for (const std::uint64_t samples : {1ull, 10ull, 57ull, 95ull, 100ull}) {
      const WholeOrder plan(samples, 10, shuffle, 5, 2);
      EXPECT_EQ(plan.chunks_before(0), 0u);
      EXPECT_EQ(plan.chunks_before(samples), plan.num_chunks());
      std::set<std::uint64_t> begun;
      for (std::uint64_t position = 0; position < samples; ++position) {
        if (Shuffle(shuffle).kind() == Shuffle::Kind::full) {
          ASSERT_EQ(plan.chunks_before(position + 1), plan.num_chunks());
          continue;
        }
        while (begun.size() < plan.chunks_before(position + 1))
          begun.insert(plan.chunk_in_order(begun.size()));
        ASSERT_TRUE(begun.contains(plan.at(position) / 10))
            << shuffle << ", " << samples << " samples, position " << position;
      }
    }
  }
}

TEST(LookAhead, goes_through_the_plan_beyond_what_is_in_preparation) {
  const PlanSpec spec{.num_samples = 100, .rows_per_chunk = 10, .batch_size = 5};
  const auto plan = std::make_shared<const EpochPlan>(spec, 0);
  LookAhead look_ahead(3);
  const auto next = [&look_ahead]() -> std::optional<std::uint64_t> {
    const auto place = look_ahead.next();
    return place ? std::optional(place->chunk) : std::nullopt;
  };
  EXPECT_EQ(next(), std::nullopt) << "before the first batch";
  look_ahead.advance(plan, 0);
  EXPECT_EQ(next(), 1u);
  EXPECT_EQ(next(), 2u);
  look_ahead.advance(plan, 9);  // 50 samples: chunks 0 to 4 are taken care of
  EXPECT_EQ(next(), 5u);
  EXPECT_EQ(next(), 6u);
  EXPECT_EQ(next(), 7u);
  EXPECT_EQ(next(), std::nullopt);
  look_ahead.advance(plan, 17);
  EXPECT_EQ(next(), 9u) << "and no further than the epoch";
  EXPECT_EQ(next(), std::nullopt);
  look_ahead.advance(std::make_shared<const EpochPlan>(spec, 1), 0);
  EXPECT_EQ(next(), 1u) << "the next epoch starts from the first sample";
  LookAhead no_room(0);
  no_room.advance(plan, 0);
  EXPECT_FALSE(no_room.next());
}

TEST(LookAhead, takes_back_a_place_that_the_batches_in_preparation_have_reached) {
  const PlanSpec spec{.num_samples = 100, .rows_per_chunk = 10, .batch_size = 5};
  const auto plan = std::make_shared<const EpochPlan>(spec, 0);
  LookAhead look_ahead(3);
  look_ahead.advance(plan, 0);
  const auto second = look_ahead.next();
  const auto third = look_ahead.next();
  ASSERT_TRUE(second && third);
  EXPECT_TRUE(look_ahead.is_ahead(*second));
  look_ahead.advance(plan, 2);
  EXPECT_FALSE(look_ahead.is_ahead(*second));
  EXPECT_TRUE(look_ahead.is_ahead(*third));
  look_ahead.advance(std::make_shared<const EpochPlan>(spec, 1), 0);
  EXPECT_FALSE(look_ahead.is_ahead(*third)) << "another epoch";
}

TEST(EpochPlan, leaves_out_the_smaller_last_batch_only_when_asked) {
  PlanSpec spec{.num_samples = 10, .batch_size = 4};
  EXPECT_EQ(EpochPlan(spec, 0).num_batches(), 3u);
  EXPECT_THAT(EpochPlan(spec, 0).batch(2), ElementsAre(8, 9));
  spec.drop_last = true;
  EXPECT_EQ(EpochPlan(spec, 0).num_batches(), 2u);
  spec.batch_size = 11;
  EXPECT_EQ(EpochPlan(spec, 0).num_batches(), 0u);
}

TEST(EpochPlan, splits_the_global_order_over_ranks) {
  const PlanSpec whole{
      .num_samples = 103, .rows_per_chunk = 10, .shuffle = "chunk:3", .seed = 5, .batch_size = 12};
  const auto global = whole_epoch(whole, 2);
  for (const std::uint64_t world_size : {2u, 3u, 8u}) {
    std::vector<std::int64_t> merged(global.size(), -1);
    std::set<std::uint64_t> batch_counts;
    for (std::uint64_t rank = 0; rank < world_size; ++rank) {
      PlanSpec spec = whole;
      spec.rank = rank;
      spec.world_size = world_size;
      spec.batch_size = 4;
      const EpochPlan plan(spec, 2);
      batch_counts.insert(plan.num_batches());
      for (std::uint64_t b = 0; b < plan.num_batches(); ++b) {
        const auto batch = plan.batch(b);
        for (std::size_t i = 0; i < batch.size(); ++i) {
          merged.at((b * 4 + i) * world_size + rank) = batch[i];
        }
      }
    }
    EXPECT_EQ(merged, global) << world_size << " ranks";
    EXPECT_EQ(batch_counts.size(), 1u) << "every rank has the same number of batches";
  }
}

TEST(EpochPlan, goes_on_from_a_start_position) {
  PlanSpec spec{.num_samples = 50, .rows_per_chunk = 5, .shuffle = "full", .seed = 9, .batch_size = 8};
  const auto whole = whole_epoch(spec, 0);
  spec.start = 21;
  spec.batch_size = 3;
  EXPECT_EQ(whole_epoch(spec, 0), std::vector<std::int64_t>(whole.begin() + 21, whole.end()));
  spec.start = 50;
  EXPECT_EQ(EpochPlan(spec, 0).num_batches(), 0u);
}

TEST(EpochPlan, needs_no_memory_for_a_trillion_samples) {
  const EpochPlan plan({.num_samples = 1'000'000'000'000,
                        .rows_per_chunk = 100,
                        .shuffle = "chunk:16",
                        .seed = 1,
                        .batch_size = 4},
                       0);
  const auto batch = plan.batch(200'000'000'000);
  EXPECT_EQ(batch.size(), 4u);
  for (const std::int64_t sample : batch) EXPECT_LT(sample, 1'000'000'000'000);
}

TEST(ShuffleOption, takes_literals_without_surprises) {
  EXPECT_EQ(Shuffle("chunk:16").kind(), Shuffle::Kind::chunk);
  EXPECT_EQ(Shuffle("chunk:16").window_chunks(), 16u);
  EXPECT_EQ(Shuffle(true).kind(), Shuffle::Kind::full);
  EXPECT_EQ(Shuffle(false).kind(), Shuffle::Kind::sequential);
  EXPECT_EQ(Shuffle("full").to_string(), "full");
  EXPECT_EQ(Shuffle(std::string("chunk:2")).to_string(), "chunk:2");
}

TEST(ShuffleOption, refuses_unknown_text) {
  for (const char* text : {"", "chunk", "chunk:", "chunk:0", "chunk:-1", "chunk:3x", "random",
                           "chunk:-99999999999999999999999", "chunk:99999999999999999999999x"}) {
    EXPECT_THAT(refusal_of<OptionError>([text] { Shuffle{text}; }), HasSubstr("is not known; use")) << text;
  }
  EXPECT_THAT(refusal_of<OptionError>([] { Shuffle{"chunk:99999999999999999999999"}; }),
              HasSubstr("too many chunks in a window"));
}

}  // namespace
}  // namespace h5feed::test
