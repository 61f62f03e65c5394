// SPDX-License-Identifier: Apache-2.0
// The inverse of a plan, and how well orders mix chunks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "plan/epoch_plan.hpp"
#include "plan/mixing.hpp"

namespace h5feed::test {
namespace {

class Turns : public testing::TestWithParam<std::tuple<const char*, std::uint64_t, std::uint64_t, bool>> {};

TEST_P(Turns, invert_the_batches_of_every_rank) {
  const auto& [shuffle, samples, batch_size, drop_last] = GetParam();
  for (const std::uint64_t world_size : {1u, 3u}) {
    for (const std::uint64_t start : {std::uint64_t{0}, samples / 3}) {
      for (std::uint64_t rank = 0; rank < world_size; ++rank) {
        const EpochPlan plan({.num_samples = samples,
                              .rows_per_chunk = 10,
                              .shuffle = shuffle,
                              .seed = 5,
                              .batch_size = batch_size,
                              .drop_last = drop_last,
                              .rank = rank,
                              .world_size = world_size,
                              .start = start},
                             4);
        std::vector<std::optional<std::uint64_t>> expected(samples);
        for (std::uint64_t number = 0; number < plan.num_batches(); ++number) {
          const std::vector<std::int64_t> batch = plan.batch(number);
          for (std::uint64_t place = 0; place < batch.size(); ++place) {
            expected[static_cast<std::size_t>(batch[place])] = number * batch_size + place;
          }
        }
        for (std::uint64_t sample = 0; sample < samples; ++sample) {
          ASSERT_EQ(plan.turn_of(sample), expected[sample]) << "sample " << sample << ", rank " << rank;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Orders, Turns,
    testing::Combine(testing::Values("sequential", "full", "chunk:1", "chunk:3", "chunk:4", "chunk:99"),
                     testing::Values(1, 9, 10, 95, 101, 240), testing::Values(1, 7, 64), testing::Bool()));

// The definition, counted over the batches of many seeds.
double counted(std::uint64_t samples, std::uint64_t rows, std::uint64_t batch_size, const Shuffle& shuffle) {
  const auto different = [&](const Shuffle& order) {
    std::uint64_t pairs = 0;
    std::uint64_t count = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      const EpochPlan plan({.num_samples = samples,
                            .rows_per_chunk = rows,
                            .shuffle = order,
                            .seed = seed,
                            .batch_size = batch_size},
                           0);
      for (std::uint64_t number = 0; number < plan.num_batches(); ++number) {
        const std::vector<std::int64_t> batch = plan.batch(number);
        for (std::size_t i = 0; i < batch.size(); ++i) {
          for (std::size_t j = 0; j < i; ++j, ++pairs) {
            const auto chunk = [&](std::size_t at) { return static_cast<std::uint64_t>(batch[at]) / rows; };
            if (chunk(i) != chunk(j)) ++count;
          }
        }
      }
    }
    return static_cast<double>(count) / static_cast<double>(pairs);
  };
  return different(shuffle) / different("full");
}

TEST(MixingScore, is_what_batches_show) {
  for (const char* shuffle : {"sequential", "chunk:1", "chunk:2", "chunk:3", "chunk:5", "full"}) {
    for (const std::uint64_t batch_size : {2u, 7u, 16u, 64u}) {
      EXPECT_NEAR(mixing_score(240, 10, batch_size, shuffle), counted(240, 10, batch_size, shuffle), 0.01)
          << shuffle << ", batches of " << batch_size;
    }
  }
  // A short last chunk, which the order may put anywhere.
  EXPECT_NEAR(mixing_score(95, 10, 16, "sequential"), counted(95, 10, 16, "sequential"), 0.01);
  EXPECT_NEAR(mixing_score(95, 10, 16, "chunk:3"), counted(95, 10, 16, "chunk:3"), 0.01);
}

TEST(MixingScore, ranges_from_one_chunk_a_batch_to_a_full_shuffle) {
  EXPECT_DOUBLE_EQ(mixing_score(1'000'000'000, 1000, 256, "full"), 1);
  EXPECT_DOUBLE_EQ(mixing_score(1000, 100, 10, "sequential"), 0);
  EXPECT_DOUBLE_EQ(mixing_score(1000, 100, 10, "chunk:10"), 1) << "all chunks in play";
  EXPECT_DOUBLE_EQ(mixing_score(1000, 1, 10, "sequential"), 1) << "each sample is a chunk";
  EXPECT_DOUBLE_EQ(mixing_score(1000, 100, 1, "sequential"), 1) << "nothing to mix";
  EXPECT_DOUBLE_EQ(mixing_score(1, 1, 1, "sequential"), 1);
  EXPECT_NEAR(mixing_score(1'000'000'000, 100, 256, "chunk:16"), 0.94, 0.01);
}

}  // namespace
}  // namespace h5feed::test
