// SPDX-License-Identifier: Apache-2.0
// Rows of several datasets in chunks of different height, and orders over them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "base/row_layout.hpp"
#include "plan/epoch_plan.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;

// Every row is in the chunk that says so, after the rows before it.
void check_rows_and_chunks_agree(const RowLayout& layout) {
  std::uint64_t row = 0;
  for (std::uint64_t chunk = 0; chunk < layout.num_chunks(); ++chunk) {
    const RowLayout::Rows rows = layout.rows_of(chunk);
    ASSERT_EQ(rows.first, row);
    ASSERT_LT(rows.first, rows.end);
    for (; row < rows.end; ++row) {
      ASSERT_EQ(layout.chunk_of(row), chunk);
      ASSERT_EQ(layout.place_in_chunk(row), layout.place_in_chunk(rows.first) + row - rows.first);
      ASSERT_LT(layout.place_in_chunk(row), layout.rows_per_chunk());
    }
  }
  EXPECT_EQ(row, layout.num_rows());
}

TEST(RowLayout, of_one_dataset_has_equal_chunks) {
  const RowLayout layout(95, 10);
  EXPECT_TRUE(layout.regular());
  EXPECT_EQ(layout.num_chunks(), 10u);
  EXPECT_EQ(layout.rows_of(9).count(), 5u);
  check_rows_and_chunks_agree(layout);
}

TEST(RowLayout, of_several_datasets_has_a_short_chunk_for_each) {
  const RowLayout layout({{7, 5}, {5, 5}, {3, 2}});
  EXPECT_FALSE(layout.regular());
  EXPECT_EQ(layout.num_chunks(), 5u);
  std::vector<std::uint64_t> counts;
  for (std::uint64_t chunk = 0; chunk < 5; ++chunk) counts.push_back(layout.rows_of(chunk).count());
  EXPECT_THAT(counts, ElementsAre(5, 2, 5, 2, 1));
  EXPECT_EQ(layout.place_in_chunk(7), 0u);
  check_rows_and_chunks_agree(layout);
}

TEST(RowLayout, leaves_rows_out_of_a_first_chunk) {
  const RowLayout layout({{8, 5, 3}, {1, 5, 4}, {12, 5, 0}});
  std::vector<std::uint64_t> counts;
  for (std::uint64_t chunk = 0; chunk < layout.num_chunks(); ++chunk)
    counts.push_back(layout.rows_of(chunk).count());
  EXPECT_THAT(counts, ElementsAre(2, 5, 1, 1, 5, 5, 2));
  EXPECT_EQ(layout.place_in_chunk(0), 3u);
  EXPECT_EQ(layout.place_in_chunk(8), 4u);
  check_rows_and_chunks_agree(layout);
}

TEST(RowLayout, skips_datasets_without_rows) {
  const RowLayout layout({{0, 5}, {4, 3}, {0, 1}, {0, 7}, {2, 3}, {0, 2}});
  EXPECT_EQ(layout.num_chunks(), 3u);
  check_rows_and_chunks_agree(layout);
}

TEST(RowLayout, of_full_chunks_is_that_of_one_dataset) {
  EXPECT_TRUE(RowLayout({{10, 5}, {5, 5}, {3, 5}}).regular());
  EXPECT_EQ(RowLayout({{10, 5}, {5, 5}, {3, 5}}).fingerprint(), RowLayout(18, 5).fingerprint());
  EXPECT_NE(RowLayout({{4, 5}, {5, 5}}).fingerprint(), RowLayout(9, 5).fingerprint());
  EXPECT_NE(RowLayout({{4, 5}, {5, 5}}).fingerprint(), RowLayout({{3, 5}, {6, 5}}).fingerprint());
}

std::vector<std::int64_t> samples_of(const EpochPlan& plan) {
  std::vector<std::int64_t> samples;
  for (std::uint64_t number = 0; number < plan.num_batches(); ++number) {
    const auto batch = plan.batch(number);
    samples.insert(samples.end(), batch.begin(), batch.end());
  }
  return samples;
}

PlanSpec irregular(const Shuffle& shuffle) {
  PlanSpec spec{.num_samples = 21, .shuffle = shuffle, .seed = 3, .batch_size = 4};
  spec.layout = RowLayout({{8, 5, 3}, {1, 5, 4}, {12, 5, 0}});
  return spec;
}

TEST(IrregularOrder, delivers_each_sample_once_in_every_order) {
  for (const Shuffle& shuffle : {Shuffle(false), Shuffle(true), Shuffle("chunk:1"), Shuffle("chunk:3")}) {
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      const EpochPlan plan(irregular(shuffle), epoch);
      std::vector<std::int64_t> samples = samples_of(plan);
      for (std::uint64_t place = 0; place < samples.size(); ++place) {
        const auto sample = static_cast<std::uint64_t>(samples[place]);
        EXPECT_EQ(plan.turn_of(sample), place);
      }
      if (shuffle.kind() == Shuffle::Kind::sequential) {
        EXPECT_TRUE(std::ranges::is_sorted(samples));
      }
      std::ranges::sort(samples);
      std::vector<std::int64_t> all(21);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(samples, all);
    }
  }
}

TEST(IrregularOrder, takes_chunk_after_chunk_in_windows_of_one) {
  const PlanSpec spec = irregular("chunk:1");
  std::vector<std::uint64_t> chunks;
  for (const std::int64_t sample : samples_of(EpochPlan(spec, 1))) {
    const std::uint64_t chunk = spec.layout->chunk_of(static_cast<std::uint64_t>(sample));
    if (chunks.empty() || chunks.back() != chunk) chunks.push_back(chunk);
  }
  EXPECT_EQ(chunks.size(), 7u);
  EXPECT_EQ(std::set<std::uint64_t>(chunks.begin(), chunks.end()).size(), 7u);
}

TEST(IrregularOrder, deals_whole_chunks_to_ranks) {
  std::set<std::int64_t> all;
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    PlanSpec spec = irregular("chunk:2");
    spec.world_size = 3;
    spec.rank = rank;
    spec.shard = Shard::by_chunk;
    for (const std::int64_t sample : samples_of(EpochPlan(spec, 2))) EXPECT_TRUE(all.insert(sample).second);
  }
  EXPECT_EQ(all.size(), 21u);
}

TEST(IrregularOrder, of_a_subset_keeps_to_its_samples) {
  PlanSpec spec = irregular("chunk:2");
  spec.subset = std::make_shared<const SampleSubset>(std::vector<std::uint64_t>{0, 3, 8, 9, 20});
  std::vector<std::int64_t> samples = samples_of(EpochPlan(spec, 0));
  std::ranges::sort(samples);
  EXPECT_THAT(samples, ElementsAre(0, 3, 8, 9, 20));
}

TEST(IrregularOrder, is_another_plan_than_the_regular_one) {
  PlanSpec regular = irregular("chunk:2");
  regular.layout = RowLayout(21, 5);
  EXPECT_NE(plan_hash(regular), plan_hash(irregular("chunk:2")));
  regular.shuffle = true;
  EXPECT_EQ(plan_hash(regular), plan_hash(irregular(true)));
}

}  // namespace
}  // namespace h5feed::test
