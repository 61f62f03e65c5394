// SPDX-License-Identifier: Apache-2.0
// The order of a mixture: shares of each block, passes over the sets, ends of epochs, ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "h5feed/error.hpp"
#include "plan/epoch_plan.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Samples = std::vector<std::int64_t>;

// Sets of `sizes` samples in chunks of 10, one after the other.
std::shared_ptr<const Mixture> mixture_of(const std::vector<std::uint64_t>& sizes,
                                          const std::vector<double>& weights, MixtureEnd end = {}) {
  std::vector<MixtureSet> sets;
  const std::vector<std::uint64_t> quotas = mixture_quotas(weights);
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sets.push_back({.first_sample = first, .layout = RowLayout(sizes[i], 10), .quota = quotas[i]});
    first += sizes[i];
  }
  return std::make_shared<const Mixture>(std::move(sets), end);
}

PlanSpec spec_of(std::shared_ptr<const Mixture> mixture, const char* shuffle) {
  const MixtureSet& last = mixture->sets().back();
  PlanSpec spec{.num_samples = last.first_sample + last.layout.num_rows(),
                .rows_per_chunk = 10,
                .shuffle = shuffle,
                .seed = 5,
                .batch_size = 64};
  spec.mixture = std::move(mixture);
  return spec;
}

Samples order_of(const PlanSpec& spec, std::uint64_t epoch) {
  const EpochPlan plan(spec, epoch);
  Samples all;
  for (std::uint64_t number = 0; number < plan.num_batches(); ++number) {
    const Samples batch = plan.batch(number);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

// Returns the samples of one set in the order of the epoch, counted within the set.
Samples of_set(const Mixture& mixture, std::size_t set, const Samples& order) {
  Samples own;
  for (const std::int64_t sample : order) {
    if (mixture.set_of(static_cast<std::uint64_t>(sample)) != set) continue;
    own.push_back(sample - static_cast<std::int64_t>(mixture.sets()[set].first_sample));
  }
  return own;
}

Samples sorted(Samples samples) {
  std::ranges::sort(samples);
  return samples;
}

Samples numbers(std::int64_t count) {
  Samples all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(MixtureQuotas, round_to_4096ths_with_the_exact_sum) {
  EXPECT_THAT(mixture_quotas(std::vector{0.7, 0.3}), ElementsAre(2867, 1229));
  EXPECT_THAT(mixture_quotas(std::vector{7.0, 3.0}), ElementsAre(2867, 1229));
  EXPECT_THAT(mixture_quotas(std::vector{1.0, 1.0, 1.0}), ElementsAre(1366, 1365, 1365));
  EXPECT_THAT(mixture_quotas(std::vector{1.0}), ElementsAre(4096));
  EXPECT_THAT(mixture_quotas(std::vector{4095.0, 1.0}), ElementsAre(4095, 1));
  EXPECT_EQ(mixture_quotas(std::vector(4096, 0.1)), std::vector<std::uint64_t>(4096, 1));
}

TEST(MixtureQuotas, refuse_weights_that_are_no_shares) {
  const auto refusal = [](std::vector<double> weights) {
    return refusal_of<OptionError>([&] { mixture_quotas(weights); });
  };
  EXPECT_EQ(refusal({1, 0}),
            "mix(): the weight of set 1 is 0; weights must be finite and above 0; leave the set out instead");
  EXPECT_THAT(refusal({-0.5, 1}), HasSubstr("the weight of set 0 is -0.5"));
  EXPECT_THAT(refusal({1, std::numeric_limits<double>::quiet_NaN()}), HasSubstr("set 1 is nan"));
  EXPECT_THAT(refusal({1, std::numeric_limits<double>::infinity()}), HasSubstr("set 1 is inf"));
  EXPECT_THAT(refusal({1e308, 1e308}), HasSubstr("divide them by their largest"));
  EXPECT_EQ(
      refusal({1, 0.0002}),
      "mix(): the weight 0.0002 of set 1 is less than 1/4096 of the sum of the weights; raise it, or leave "
      "the set out");
}

TEST(MixtureOrder, has_the_exact_share_of_each_set_in_every_block) {
  const auto mixture = mixture_of({300, 9000, 41}, {0.25, 0.7, 0.05}, {MixtureEnd::Kind::samples, 10'000});
  for (const char* shuffle : {"sequential", "full", "chunk:3"}) {
    const Samples order = order_of(spec_of(mixture, shuffle), 3);
    ASSERT_EQ(order.size(), 10'000u);
    for (std::size_t begin = 0; begin < order.size(); begin += 4096) {
      const std::size_t end = std::min(begin + 4096, order.size());
      const Samples block(order.begin() + static_cast<std::ptrdiff_t>(begin),
                          order.begin() + static_cast<std::ptrdiff_t>(end));
      for (std::size_t set = 0; set < 3; ++set) {
        const std::uint64_t quota = mixture->sets()[set].quota;
        const double exact = static_cast<double>(quota * block.size()) / 4096;
        EXPECT_NEAR(static_cast<double>(of_set(*mixture, set, block).size()), exact, end % 4096 == 0 ? 0 : 1);
      }
    }
    EXPECT_EQ(of_set(*mixture, 0, order).size(), mixture->draws()[0]);
  }
}

TEST(MixtureOrder, goes_through_each_set_in_passes_of_its_own_order) {
  const auto mixture = mixture_of({300, 9000}, {0.5, 0.5}, {MixtureEnd::Kind::samples, 5000});
  const Samples files = of_set(*mixture, 0, order_of(spec_of(mixture, "sequential"), 0));
  ASSERT_EQ(files.size(), 2500u);
  for (std::size_t n = 0; n < files.size(); ++n) EXPECT_EQ(files[n], static_cast<std::int64_t>(n % 300));

  for (const char* shuffle : {"full", "chunk:3"}) {
    const Samples order = order_of(spec_of(mixture, shuffle), 0);
    const Samples small = of_set(*mixture, 0, order);
    std::set<Samples> passes;
    for (std::ptrdiff_t pass = 0; pass < 8; ++pass) {
      const Samples own(small.begin() + pass * 300, small.begin() + (pass + 1) * 300);
      EXPECT_EQ(sorted(own), numbers(300)) << shuffle << " " << pass;
      passes.insert(own);
    }
    EXPECT_EQ(passes.size(), 8u) << "each pass has another order";
    // The large set does not repeat a sample.
    const Samples large = of_set(*mixture, 1, order);
    EXPECT_EQ(std::set<std::int64_t>(large.begin(), large.end()).size(), 2500u);
  }
}

TEST(MixtureOrder, draws_from_windows_of_chunks_of_each_set) {
  const auto mixture = mixture_of({1000, 1000}, {0.9, 0.1});
  const Samples order = order_of(spec_of(mixture, "chunk:4"), 1);
  for (std::size_t set = 0; set < 2; ++set) {
    const Samples own = of_set(*mixture, set, order);
    for (std::size_t begin = 0; begin + 40 <= own.size(); begin += 40) {
      std::set<std::int64_t> chunks;
      for (std::size_t i = begin; i < begin + 40; ++i) chunks.insert(own[i] / 10);
      EXPECT_EQ(chunks.size(), 4u) << "a window of 4 chunks, each drawn whole";
    }
  }
}

TEST(MixtureOrder, gives_a_set_its_own_shuffle) {
  auto sets = mixture_of({100, 100}, {1, 1})->sets();
  sets[1].shuffle = Shuffle(false);
  const auto mixture = std::make_shared<const Mixture>(std::move(sets), MixtureEnd{});
  const Samples order = order_of(spec_of(mixture, "full"), 0);
  EXPECT_FALSE(std::ranges::is_sorted(of_set(*mixture, 0, order)));
  EXPECT_EQ(of_set(*mixture, 1, order), numbers(100));
}

TEST(MixtureOrder, draws_from_subsets) {
  auto sets = mixture_of({100, 100}, {1, 3})->sets();
  sets[0].subset = std::make_shared<const SampleSubset>(std::vector<std::uint64_t>{80, 3, 41, 42, 7});
  const auto mixture =
      std::make_shared<const Mixture>(std::move(sets), MixtureEnd{MixtureEnd::Kind::longest});
  for (const char* shuffle : {"full", "chunk:2"}) {
    const Samples own = of_set(*mixture, 0, order_of(spec_of(mixture, shuffle), 0));
    for (std::ptrdiff_t pass = 0; pass < 6; ++pass)
      EXPECT_THAT(sorted({own.begin() + pass * 5, own.begin() + pass * 5 + 5}),
                  ElementsAre(3, 7, 41, 42, 80));
  }
  EXPECT_THAT(of_set(*mixture, 0, order_of(spec_of(mixture, "sequential"), 0)),
              testing::Contains(80).Times(testing::Ge(6)));
}

TEST(MixtureOrder, shortest_ends_before_a_set_repeats_and_longest_when_all_were_seen) {
  for (const auto& [sizes, weights] :
       {std::pair{std::vector<std::uint64_t>{1000, 300}, std::vector{0.7, 0.3}},
        std::pair{std::vector<std::uint64_t>{1, 5000, 77}, std::vector{0.2, 0.5, 0.3}},
        std::pair{std::vector<std::uint64_t>{12'345, 6789, 20'000}, std::vector{3.0, 1.0, 2.0}}}) {
    const auto shortest = mixture_of(sizes, weights);
    const auto longest = mixture_of(sizes, weights, {MixtureEnd::Kind::longest});
    const std::vector<std::uint64_t> few = shortest->draws();
    const std::vector<std::uint64_t> many = longest->draws();
    bool exhausted = false;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_LE(few[i], sizes[i]);
      EXPECT_GE(many[i], sizes[i]);
      exhausted = exhausted || few[i] + 1 >= sizes[i];
    }
    EXPECT_TRUE(exhausted) << "a longer epoch would repeat";
    const Samples all = order_of(spec_of(longest, "full"), 0);
    EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(),
              std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
    const Samples once = order_of(spec_of(shortest, "full"), 2);
    EXPECT_EQ(once.size(), shortest->size());
    EXPECT_EQ(std::set<std::int64_t>(once.begin(), once.end()).size(), once.size());
  }
}

TEST(MixtureOrder, ranks_and_resumed_epochs_deliver_the_order_of_one_process) {
  const auto mixture = mixture_of({500, 3000}, {0.4, 0.6}, {MixtureEnd::Kind::samples, 6001});
  PlanSpec spec = spec_of(mixture, "chunk:5");
  const Samples whole = order_of(spec, 4);
  spec.world_size = 3;
  for (const Shard shard : {Shard::strided, Shard::contiguous}) {
    spec.shard = shard;
    Samples together(whole.size());
    for (spec.rank = 0; spec.rank < 3; ++spec.rank) {
      const Samples own = order_of(spec, 4);
      const std::uint64_t first = 2001 * spec.rank - (spec.rank == 2 ? 1 : 0);
      for (std::size_t i = 0; i < own.size(); ++i)
        together[shard == Shard::strided ? i * 3 + spec.rank : first + i] = own[i];
    }
    EXPECT_EQ(together, whole);
  }
  PlanSpec rest = spec_of(mixture, "chunk:5");
  rest.start = 4500;
  EXPECT_EQ(order_of(rest, 4), Samples(whole.begin() + 4500, whole.end()));
}

TEST(MixtureOrder, is_the_same_for_threads_that_ask_at_once) {
  const PlanSpec spec =
      spec_of(mixture_of({500, 3000}, {0.4, 0.6}, {MixtureEnd::Kind::samples, 20'000}), "full");
  const Samples expected = order_of(spec, 0);
  const EpochPlan plan(spec, 0);
  std::vector<Samples> seen(2);
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t thread = 0; thread < 2; ++thread) {
      threads.emplace_back([&, thread] {
        // One goes forwards, the other backwards, so that they need other blocks and passes.
        for (std::uint64_t i = 0; i < plan.num_batches(); ++i) {
          const Samples batch = plan.batch(thread == 0 ? i : plan.num_batches() - 1 - i);
          seen[thread].insert(thread == 0 ? seen[thread].end() : seen[thread].begin(), batch.begin(),
                              batch.end());
        }
      });
    }
  }
  EXPECT_EQ(seen[0], expected);
  EXPECT_EQ(seen[1], expected);
}

TEST(MixtureOrder, has_a_hash_of_every_option) {
  const auto hash = [](const Mixture& mixture) {
    return plan_hash(spec_of(std::make_shared<const Mixture>(mixture), "full"));
  };
  const auto base = mixture_of({500, 3000}, {0.4, 0.6});
  std::set<std::uint64_t> hashes = {hash(*base), hash(*mixture_of({500, 3000}, {0.41, 0.59})),
                                    hash(*mixture_of({501, 2999}, {0.4, 0.6})),
                                    hash(*mixture_of({500, 3000}, {0.4, 0.6}, {MixtureEnd::Kind::longest}))};
  auto sets = base->sets();
  sets[0].shuffle = Shuffle("chunk:2");
  hashes.insert(hash(Mixture(sets, {})));
  sets[0].subset = std::make_shared<const SampleSubset>(std::vector<std::uint64_t>{1, 2});
  hashes.insert(hash(Mixture(sets, {})));
  EXPECT_EQ(hashes.size(), 6u);
  EXPECT_EQ(hash(*base), hash(*mixture_of({500, 3000}, {4, 6})));
}

// The order is part of the public contract: these values must never change.
TEST(MixtureOrder, is_golden) {
  const auto mixture = mixture_of({40, 100, 7}, {0.3, 0.5, 0.2}, {MixtureEnd::Kind::samples, 5000});
  const auto first = [&](const char* shuffle) {
    const Samples order = order_of(spec_of(mixture, shuffle), 1);
    return Samples(order.begin() + 4090, order.begin() + 4102);
  };
  EXPECT_THAT(first("sequential"), ElementsAre(85, 26, 86, 27, 28, 87, 88, 89, 29, 90, 91, 92));
  EXPECT_THAT(first("full"), ElementsAre(92, 8, 122, 27, 38, 100, 95, 46, 9, 120, 96, 63));
  EXPECT_THAT(first("chunk:2"), ElementsAre(58, 14, 56, 21, 10, 55, 65, 64, 26, 57, 60, 62));
}

TEST(Mixture, is_told_from_others_by_all_that_its_order_depends_on) {
  const auto fingerprint = [](const MixtureSet& second) {
    return Mixture({{.layout = RowLayout(100, 10), .quota = kMixtureBlock / 2}, second}, {}).fingerprint();
  };
  const MixtureSet set{.first_sample = 100, .layout = RowLayout(60, 10), .quota = kMixtureBlock / 2};
  MixtureSet chunks = set, rows = set, part = set, order = set, window = set;
  chunks.layout = RowLayout(60, 20);
  rows.layout = RowLayout(61, 10);
  part.subset = std::make_shared<const SampleSubset>(std::vector<std::uint64_t>{1, 2, 3});
  order.shuffle = "chunk:2";
  window.shuffle = "chunk:3";
  std::set<std::uint64_t> different;
  for (const MixtureSet& each : {set, chunks, rows, part, order, window}) different.insert(fingerprint(each));
  EXPECT_EQ(different.size(), 6u);
  EXPECT_EQ(fingerprint(set), fingerprint(MixtureSet(set)));
}

}  // namespace
}  // namespace h5feed::test
