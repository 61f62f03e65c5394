// SPDX-License-Identifier: Apache-2.0
// When rows are due, over rounds that come as predicted and rounds that do not.
#include "flow/chunks/row_future.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace h5feed::test {
namespace {

constexpr std::uint64_t kSamples = 100, kBatch = 8, kBatches = 13;

RowFuture::Round round_of(std::uint64_t epoch) {
  const PlanSpec spec{
      .num_samples = kSamples, .rows_per_chunk = 10, .shuffle = "full", .seed = 2, .batch_size = kBatch};
  return {std::make_shared<const EpochPlan>(spec, epoch), epoch, 0};
}

class Future : public testing::Test {
 protected:
  // Issues an epoch as the loader does, with the one after it as the prediction.
  void issue(std::uint64_t epoch) {
    now_ = round_of(epoch);
    next_ = round_of(epoch + 1);
    future_.issue(now_, next_);
  }
  void plan(std::uint64_t batch) { future_.planned(future_.first_turn(batch)); }
  std::uint64_t due(std::uint64_t sample) { return future_.due_times().due(sample, {}).value(); }
  std::uint64_t base() { return future_.first_turn(0); }

  RowFuture future_{kBatch};
  RowFuture::Round now_;
  RowFuture::Round next_;
};

TEST_F(Future, is_this_epoch_until_a_row_is_served_and_then_the_next) {
  issue(0);
  const std::uint64_t sample = static_cast<std::uint64_t>(now_.plan->batch(2)[3]);
  EXPECT_EQ(due(sample), base() + 2 * kBatch + 3);
  const std::vector<std::uint64_t> served{base() + 2 * kBatch + 3};
  const std::uint64_t later = future_.due_times().due(sample, served).value();
  for (std::uint64_t batch = 0; batch < 3; ++batch) plan(batch);
  EXPECT_EQ(due(sample), later);
  for (std::uint64_t batch = 3; batch < kBatches; ++batch) plan(batch);
  issue(1);
  EXPECT_EQ(later, base() + now_.plan->turn_of(sample).value());
  EXPECT_EQ(due(sample), later) << "the prediction came true";
}

TEST_F(Future, counts_batches_as_planned_only_when_all_before_are) {
  issue(0);
  const std::uint64_t sample = static_cast<std::uint64_t>(now_.plan->batch(1)[0]);
  plan(1);
  EXPECT_EQ(due(sample), base() + kBatch) << "batch 0 is not planned";
  plan(0);
  EXPECT_GT(due(sample), base() + kBatches * kBatch - 1);
}

TEST_F(Future, goes_on_counting_over_the_edge_of_an_epoch) {
  issue(0);
  for (std::uint64_t batch = 0; batch < kBatches; ++batch) plan(batch);
  issue(1);
  const std::uint64_t sample = static_cast<std::uint64_t>(now_.plan->batch(0)[0]);
  EXPECT_EQ(due(sample), base());
  plan(0);
  EXPECT_GT(due(sample), base() + kBatches * kBatch - 1);
}

TEST_F(Future, counts_anew_where_turns_of_another_prediction_lie_between) {
  future_.issue(round_of(0), round_of(1));
  for (std::uint64_t batch = 0; batch < kBatches; ++batch) plan(batch);
  future_.issue(round_of(0), round_of(5));
  issue(5);
  const std::uint64_t sample = static_cast<std::uint64_t>(now_.plan->batch(0)[0]);
  EXPECT_EQ(due(sample), base());
  plan(0);
  EXPECT_GT(due(sample), base() + kBatches * kBatch - 1);
}

TEST_F(Future, after_a_turn_is_a_later_one_though_batches_before_it_are_not_planned) {
  issue(0);
  const std::uint64_t sample = static_cast<std::uint64_t>(now_.plan->batch(3)[1]);
  const std::uint64_t turn = base() + 3 * kBatch + 1;
  EXPECT_EQ(future_.due_times().due_after(sample, turn), turn);
  const std::optional<std::uint64_t> later = future_.due_times().due_after(sample, turn + 1);
  EXPECT_EQ(later, base() + kBatches * kBatch + next_.plan->turn_of(sample).value());
  EXPECT_EQ(future_.due_times().end(), base() + 2 * kBatches * kBatch);
  for (std::uint64_t batch = 0; batch < 4; ++batch) plan(batch);
  EXPECT_EQ(future_.due_times().due_after(sample, 0), later);
  issue(1);
  EXPECT_EQ(future_.due_times().end(), base() + 2 * kBatches * kBatch);
}

TEST_F(Future, without_a_next_plan_ends_with_the_epoch) {
  future_.issue(round_of(0), {});
  for (std::uint64_t batch = 0; batch < kBatches; ++batch) plan(batch);
  EXPECT_FALSE(future_.due_times().due(7, {}));
}

// What the cache of rows relies on: whatever was issued, a turn never means two samples.
TEST_F(Future, never_gives_one_turn_to_two_samples) {
  std::map<std::uint64_t, std::uint64_t> sample_at;
  const auto note = [&] {
    for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
      const std::uint64_t turn = due(sample);
      const auto [at, first] = sample_at.try_emplace(turn, sample);
      ASSERT_EQ(at->second, sample) << "turn " << turn;
    }
  };
  for (const std::uint64_t epoch : {0u, 1u, 1u, 2u, 7u, 8u, 3u, 3u, 4u, 0u, 1u, 0u, 0u}) {
    issue(epoch);
    note();
    for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
      for (std::uint64_t place = 0; place < now_.plan->batch(batch).size(); ++place) {
        const auto sample = static_cast<std::uint64_t>(now_.plan->batch(batch)[place]);
        const auto [at, first] = sample_at.try_emplace(future_.first_turn(batch) + place, sample);
        ASSERT_EQ(at->second, sample);
      }
      plan(batch);
      note();
    }
  }
}

}  // namespace
}  // namespace h5feed::test
