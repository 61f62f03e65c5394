// SPDX-License-Identifier: Apache-2.0
// Samplers: their distributions, what they refuse, and the orders they give plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "h5feed/error.hpp"
#include "h5feed/sampler.hpp"
#include "plan/epoch_plan.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Samples = std::vector<std::int64_t>;

Samples listed(const Sampler& sampler, std::uint64_t seed, std::uint64_t epoch) {
  const auto samples = sampler.epoch(seed, epoch);
  Samples all;
  for (std::int64_t i = 0; i < samples->size(); ++i) all.push_back(samples->at(i));
  return all;
}

TEST(WeightedRandomSampler, draws_in_proportion_to_the_weights) {
  const std::vector<double> weights = {1, 0, 3, 2, 0.5, 0, 3.5};
  constexpr std::uint64_t kDraws = 200'000;
  const WeightedRandomSampler sampler(weights, kDraws);
  std::map<std::int64_t, double> drawn;
  for (const std::int64_t sample : listed(sampler, 3, 0)) ++drawn[sample];
  double chi2 = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double expected = weights[i] / 10 * kDraws;
    if (expected == 0) {
      EXPECT_EQ(drawn.count(static_cast<std::int64_t>(i)), 0u) << "weight 0 was drawn";
    } else {
      chi2 += std::pow(drawn[static_cast<std::int64_t>(i)] - expected, 2) / expected;
    }
  }
  EXPECT_LT(chi2, 4 + 6 * std::sqrt(2.0 * 4))
      << "4 degrees of freedom; six deviations never happen by chance";
}

TEST(WeightedRandomSampler, is_a_function_of_seed_epoch_and_position) {
  const std::vector<double> weights(50, 1.0);
  for (const bool replacement : {true, false}) {
    const WeightedRandomSampler a(weights, 40, replacement);
    const WeightedRandomSampler b(weights, 40, replacement);
    EXPECT_EQ(listed(a, 1, 2), listed(b, 1, 2));
    EXPECT_NE(listed(a, 1, 2), listed(a, 1, 3));
    EXPECT_NE(listed(a, 1, 2), listed(a, 2, 2));
    EXPECT_EQ(a.fingerprint(), b.fingerprint());
  }
  EXPECT_NE(WeightedRandomSampler(weights, 40, true).fingerprint(),
            WeightedRandomSampler(weights, 40, false).fingerprint());
}

TEST(WeightedRandomSampler, without_replacement_draws_none_twice_and_the_heavy_ones_first) {
  std::vector<double> weights(100, 0.001);
  for (std::size_t i = 0; i < 10; ++i) weights[i] = 1000;
  const Samples drawn = listed(WeightedRandomSampler(weights, 100, false), 5, 0);
  Samples sorted = drawn;
  std::ranges::sort(sorted);
  Samples all(100);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(sorted, all);
  EXPECT_TRUE(std::all_of(drawn.begin(), drawn.begin() + 10, [](std::int64_t s) { return s < 10; }));
}

TEST(WeightedRandomSampler, refuses_weights_that_cannot_work) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const auto with = [](std::vector<double> weights, std::int64_t count, bool replacement) {
    return test::refusal_of<OptionError>([&] { WeightedRandomSampler(weights, count, replacement); });
  };
  EXPECT_THAT(with({1, -0.5}, 1, true), HasSubstr("weight 1 is -0.5"));
  EXPECT_THAT(with({nan, 1}, 1, true), HasSubstr("weight 0 is nan"));
  EXPECT_THAT(with({1, 1, inf}, 1, true), HasSubstr("weight 2 is inf"));
  EXPECT_THAT(with({0, 0}, 1, true), HasSubstr("all 2 weights are 0"));
  EXPECT_THAT(with({}, 1, true), HasSubstr("all 0 weights are 0"));
  EXPECT_THAT(with({1e308, 1e308}, 1, true), HasSubstr("sum"));
  EXPECT_THAT(with({1}, 0, true),
              HasSubstr("num_samples of WeightedRandomSampler must be at least 1; got 0"));
  EXPECT_THAT(with({1}, -3, true), HasSubstr("must be at least 1; got -3"));
  EXPECT_THAT(with({1, 0, 1}, 3, false), HasSubstr("draw at most 2"));
  EXPECT_EQ(with({1, 0, 1}, 2, false), "accepted");
}

TEST(SubsetRandomSampler, permutes_its_samples_anew_each_epoch) {
  const SubsetRandomSampler sampler({5, 9, 2, 40, 7});
  Samples first = listed(sampler, 1, 0);
  EXPECT_NE(first, listed(sampler, 1, 1));
  std::ranges::sort(first);
  EXPECT_THAT(first, ElementsAre(2, 5, 7, 9, 40));
  EXPECT_THAT(test::refusal_of<OptionError>([] { SubsetRandomSampler sampler_of_none({}); }),
              HasSubstr("empty"));
}

// What torch.randperm(10, generator) gives; the torch tests compare with the LibTorch that is installed.
TEST(TorchRandomSampler, gives_the_orders_that_pytorch_gives) {
  // After torch.manual_seed(0), and after 42.
  EXPECT_THAT(listed(TorchRandomSampler(10), 0, 0), ElementsAre(4, 1, 7, 5, 3, 9, 0, 8, 6, 2));
  EXPECT_THAT(listed(TorchRandomSampler(10), 40, 2), ElementsAre(2, 6, 1, 8, 4, 5, 0, 9, 3, 7));
}

TEST(TorchRandomSampler, is_a_permutation) {
  Samples order = listed(TorchRandomSampler(1000), 3, 4);
  EXPECT_EQ(order, listed(TorchRandomSampler(1000), 7, 0)) << "seed + epoch decides, as in PyTorch";
  std::ranges::sort(order);
  for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(SamplerPlan, follows_the_sampler) {
  PlanSpec spec{.num_samples = 10, .rows_per_chunk = 5, .batch_size = 3};
  spec.sampler = make_sampler([](std::uint64_t epoch) {
    return epoch == 0 ? Samples{9, 9, 1, 0} : Samples{3};
  });
  EXPECT_EQ(EpochPlan(spec, 0).num_batches(), 2u);
  EXPECT_THAT(EpochPlan(spec, 0).batch(0), ElementsAre(9, 9, 1));
  EXPECT_THAT(EpochPlan(spec, 0).batch(1), ElementsAre(0));
  EXPECT_EQ(EpochPlan(spec, 1).num_batches(), 1u);
  EXPECT_EQ(EpochPlan(spec, 0).num_chunks(), 2u);
  EXPECT_EQ(EpochPlan(spec, 0).chunks_begun(0), 2u) << "any chunk may hold a sample of the first batch";
  spec.subset = std::make_shared<const SampleSubset>(std::vector<std::uint64_t>{8, 6, 4});
  spec.sampler = make_sampler([](std::uint64_t) { return Samples{2, 0, 0}; });
  EXPECT_THAT(EpochPlan(spec, 0).batch(0), ElementsAre(4, 8, 8)) << "numbers count within the subset";
}

TEST(SamplerPlan, refuses_numbers_that_are_no_samples) {
  PlanSpec spec{.num_samples = 10, .rows_per_chunk = 5, .batch_size = 3};
  for (const std::int64_t wrong : {std::int64_t{10}, std::int64_t{-1}}) {
    spec.sampler = make_sampler([wrong](std::uint64_t) { return Samples{0, 1, 2, wrong}; });
    EXPECT_THAT(EpochPlan(spec, 0).batch(0), ElementsAre(0, 1, 2));
    EXPECT_THAT(test::refusal_of<OptionError>([&] { EpochPlan(spec, 0).batch(1); }),
                HasSubstr("sample " + std::to_string(wrong) + "; the dataset has 10, numbered 0 to 9"));
  }
}

TEST(SamplerPlan, deals_a_sampler_s_order_to_ranks) {
  PlanSpec spec{.num_samples = 10, .rows_per_chunk = 5, .batch_size = 2};
  spec.sampler = make_sampler([](std::uint64_t) { return Samples{9, 8, 7, 6, 5}; });
  spec.world_size = 2;
  EXPECT_THAT(EpochPlan(spec, 0).batch(0), ElementsAre(9, 7));
  EXPECT_THAT(EpochPlan(spec, 0).batch(1), ElementsAre(5));
  spec.rank = 1;
  EXPECT_THAT(EpochPlan(spec, 0).batch(0), ElementsAre(8, 6));
  EXPECT_THAT(EpochPlan(spec, 0).batch(1), ElementsAre());
  spec.uneven = Uneven::pad;
  EXPECT_THAT(EpochPlan(spec, 0).batch(1), ElementsAre(9)) << "as DistributedSampler pads";
}

TEST(SamplerPlan, takes_batches_from_a_batch_sampler) {
  PlanSpec spec{.num_samples = 10, .rows_per_chunk = 5, .batch_size = 3};
  spec.batch_sampler = make_batch_sampler(
      [](std::uint64_t) {
        return std::vector<Samples>{{1, 2, 3}, {4}, {9, 0}};
      },
      3);
  EXPECT_EQ(EpochPlan(spec, 0).num_batches(), 3u);
  EXPECT_EQ(EpochPlan(spec, 0).chunks_begun(0), 0u) << "it has no order of chunks";
  EXPECT_THAT(EpochPlan(spec, 0).batch(0), ElementsAre(1, 2, 3));
  EXPECT_THAT(EpochPlan(spec, 0).batch(2), ElementsAre(9, 0));
  spec.world_size = 2;
  spec.rank = 1;
  EXPECT_EQ(EpochPlan(spec, 0).num_batches(), 2u);
  EXPECT_THAT(EpochPlan(spec, 0).batch(0), ElementsAre(4));
  EXPECT_THAT(EpochPlan(spec, 0).batch(1), ElementsAre());
  spec.rank = 0;
  spec.start = EpochPlan(spec, 0).position_before(1);
  EXPECT_THAT(EpochPlan(spec, 0).batch(0), ElementsAre(9, 0));

  spec.world_size = 1;
  spec.start = 0;
  spec.batch_size = 2;
  spec.batch_sampler = make_batch_sampler(
      [](std::uint64_t) {
        return std::vector<Samples>{{1, 2, 3}, {}};
      },
      2);
  EXPECT_THAT(test::refusal_of<OptionError>([&] { EpochPlan(spec, 0).batch(0); }),
              HasSubstr("a batch of 3 samples; it must have 1 to 2"));
  EXPECT_THAT(test::refusal_of<OptionError>([&] { EpochPlan(spec, 0).batch(1); }),
              HasSubstr("a batch of 0 samples"));
  EXPECT_THAT(test::refusal_of<OptionError>([] { make_batch_sampler({}, 2); }),
              HasSubstr("needs a function"));
  EXPECT_THAT(test::refusal_of<OptionError>([] { make_sampler({}); }), HasSubstr("needs a function"));
}

}  // namespace
}  // namespace h5feed::test
