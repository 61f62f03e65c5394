// SPDX-License-Identifier: Apache-2.0
// How samples are sharded across ranks: multisets, equal counts, positions, and the place of each sample.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "plan/epoch_plan.hpp"
#include "support/case_step.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using Samples = std::vector<std::int64_t>;

PlanSpec spec_of(std::uint64_t samples, const char* shuffle, Shard shard, Uneven uneven,
                 std::uint64_t world_size) {
  PlanSpec spec{
      .num_samples = samples, .rows_per_chunk = 10, .shuffle = shuffle, .seed = 11, .batch_size = 4};
  spec.shard = shard;
  spec.uneven = uneven;
  spec.world_size = world_size;
  return spec;
}

std::vector<Samples> batches_of(const PlanSpec& spec, std::uint64_t epoch) {
  const EpochPlan plan(spec, epoch);
  std::vector<Samples> batches;
  for (std::uint64_t number = 0; number < plan.num_batches(); ++number) batches.push_back(plan.batch(number));
  return batches;
}

Samples flat(const std::vector<Samples>& batches) {
  Samples all;
  for (const Samples& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

Samples all_ranks(PlanSpec spec, std::uint64_t epoch) {
  Samples all;
  for (spec.rank = 0; spec.rank < spec.world_size; ++spec.rank) {
    const Samples own = flat(batches_of(spec, epoch));
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

std::map<std::int64_t, int> counts(const Samples& samples) {
  std::map<std::int64_t, int> counted;
  for (const std::int64_t sample : samples) ++counted[sample];
  return counted;
}

std::shared_ptr<const SampleSubset> every_third(std::uint64_t samples) {
  std::vector<std::uint64_t> chosen;
  for (std::uint64_t sample = 0; sample < samples; sample += 3) chosen.push_back(sample);
  return std::make_shared<const SampleSubset>(std::move(chosen));
}

struct Case {
  const char* shuffle;
  Shard shard;
  std::uint64_t world_size;
  bool subset;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* shuffle : {"sequential", "full", "chunk:3"}) {
    for (const Shard shard : {Shard::strided, Shard::contiguous, Shard::by_chunk}) {
      for (const std::uint64_t world_size : {1u, 2u, 3u, 8u}) {
        for (const bool subset : {false, true}) all.push_back({shuffle, shard, world_size, subset});
      }
    }
  }
  return all;
}

class Shards : public testing::TestWithParam<Case> {
 protected:
  PlanSpec spec(Uneven uneven, std::uint64_t samples = 103) const {
    const auto [shuffle, shard, world_size, subset] = GetParam();
    PlanSpec spec = spec_of(samples, shuffle, shard, uneven, world_size);
    if (subset) spec.subset = every_third(samples);
    return spec;
  }
  static std::uint64_t taking_part(const PlanSpec& spec) {
    return spec.subset ? spec.subset->size() : spec.num_samples;
  }
};

TEST_P(Shards, exact_delivers_every_sample_once) {
  const PlanSpec exact = spec(Uneven::exact);
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    const Samples all = all_ranks(exact, epoch);
    EXPECT_EQ(all.size(), taking_part(exact));
    for (const auto& [sample, times] : counts(all)) {
      ASSERT_EQ(times, 1) << sample;
      ASSERT_TRUE(!exact.subset || sample % 3 == 0) << sample;
    }
  }
}

TEST_P(Shards, pad_repeats_as_few_as_needed_and_drop_leaves_out_as_few) {
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    const PlanSpec exact = spec(Uneven::exact);
    std::vector<std::size_t> shares;
    for (PlanSpec of = exact; of.rank < of.world_size; ++of.rank)
      shares.push_back(flat(batches_of(of, epoch)).size());
    const auto [fewest, most] = std::ranges::minmax(shares);

    const Samples padded = all_ranks(spec(Uneven::pad), epoch);
    EXPECT_EQ(padded.size(), most * exact.world_size);
    EXPECT_EQ(counts(padded).size(), taking_part(exact)) << "every sample comes";

    const Samples dropped = all_ranks(spec(Uneven::drop), epoch);
    EXPECT_EQ(dropped.size(), fewest * exact.world_size);
    EXPECT_EQ(counts(dropped).size(), dropped.size()) << "none comes twice";
  }
}

TEST_P(Shards, ranks_have_equally_many_batches) {
  for (const Uneven uneven : {Uneven::exact, Uneven::pad, Uneven::drop}) {
    for (const bool drop_last : {false, true}) {
      std::set<std::vector<std::size_t>> sizes_of_ranks;
      std::set<std::uint64_t> numbers;
      for (PlanSpec of = spec(uneven); of.rank < of.world_size; ++of.rank) {
        of.drop_last = drop_last;
        const std::vector<Samples> batches = batches_of(of, 1);
        numbers.insert(batches.size());
        std::vector<std::size_t> sizes;
        for (const Samples& batch : batches) sizes.push_back(batch.size());
        sizes_of_ranks.insert(sizes);
        if (drop_last) {
          EXPECT_TRUE(std::ranges::all_of(sizes, [](std::size_t size) { return size == 4; }));
        }
      }
      EXPECT_EQ(numbers.size(), 1u);
      if (uneven != Uneven::exact) {
        EXPECT_EQ(sizes_of_ranks.size(), 1u) << "also of equal size";
      }
    }
  }
}

TEST_P(Shards, goes_on_where_it_stopped) {
  for (const Uneven uneven : {Uneven::exact, Uneven::pad, Uneven::drop}) {
    for (PlanSpec of = spec(uneven); of.rank < of.world_size; ++of.rank) {
      const std::vector<Samples> whole = batches_of(of, 3);
      const EpochPlan plan(of, 3);
      for (std::uint64_t stop = 0; stop <= whole.size(); ++stop) {
        PlanSpec rest = of;
        rest.start = plan.position_before(stop);
        ASSERT_LE(rest.start, plan.num_positions());
        const EpochPlan resumed(rest, 3);
        ASSERT_EQ(resumed.samples_in_epoch(), flat(whole).size()) << "of the whole epoch";
        EXPECT_EQ(batches_of(rest, 3),
                  std::vector<Samples>(whole.begin() + static_cast<std::ptrdiff_t>(stop), whole.end()));
        EXPECT_EQ(resumed.first_number(), stop == whole.size() ? resumed.first_number() : stop);
        for (std::uint64_t more = 0; more + stop <= whole.size(); ++more)
          ASSERT_EQ(resumed.position_before(more), plan.position_before(stop + more));
      }
    }
  }
}

TEST_P(Shards, knows_the_turn_of_every_sample) {
  for (const Uneven uneven : {Uneven::exact, Uneven::pad, Uneven::drop}) {
    for (const std::uint64_t start_batches : {0u, 2u}) {
      for (PlanSpec of = spec(uneven); of.rank < of.world_size; ++of.rank) {
        of.start = EpochPlan(of, 2).position_before(start_batches);
        const EpochPlan plan(of, 2);
        const Samples own = flat(batches_of(of, 2));
        std::map<std::int64_t, std::uint64_t> first_turn;
        for (std::uint64_t turn = 0; turn < own.size(); ++turn) first_turn.try_emplace(own[turn], turn);
        for (std::uint64_t sample = 0; sample < of.num_samples; ++sample) {
          const auto found = first_turn.find(static_cast<std::int64_t>(sample));
          const std::optional<std::uint64_t> turn = plan.turn_of(sample);
          if (found == first_turn.end()) {
            ASSERT_EQ(turn, std::nullopt) << sample;
          } else if (of.start == 0 && uneven != Uneven::pad) {
            ASSERT_EQ(turn, found->second) << sample;
          } else if (turn) {  // the first turn of a padded sample may be another rank's, or before the start
            ASSERT_EQ(*turn, found->second) << sample;
          }
        }
      }
    }
  }
}

TEST_P(Shards, predicts_the_chunks_of_batches) {
  PlanSpec of = spec(Uneven::exact);
  if (of.shuffle.kind() == Shuffle::Kind::full) return;
  for (; of.rank < of.world_size; ++of.rank) {
    const EpochPlan plan(of, 1);
    std::set<std::uint64_t> begun;
    for (std::uint64_t number = 0; number < plan.num_batches(); ++number) {
      // The last batch may end before others of its size, whose chunks are counted.
      if (number + 1 < plan.num_batches()) {
        ASSERT_LE(plan.chunks_begun(number), plan.num_chunks());
      } else {
        ASSERT_GE(plan.chunks_begun(number), plan.num_chunks());
      }
      for (std::uint64_t place = 0; place < plan.chunks_begun(number); ++place)
        begun.insert(plan.chunk_in_order(place));
      for (const std::int64_t sample : plan.batch(number))
        ASSERT_TRUE(begun.contains(static_cast<std::uint64_t>(sample) / 10)) << sample;
    }
  }
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  static constexpr const char* kShards[] = {"strided", "contiguous", "by_chunk"};
  std::string shuffle = info.param.shuffle;
  std::ranges::replace(shuffle, ':', '_');
  return shuffle + "_" + kShards[static_cast<int>(info.param.shard)] + "_" +
         std::to_string(info.param.world_size) + (info.param.subset ? "_subset" : "");
}

INSTANTIATE_TEST_SUITE_P(Modes, Shards, testing::ValuesIn(cases()), name_of_case);

TEST(StridedShard, has_the_same_global_batches_for_every_world_size) {
  const Samples single = flat(batches_of(spec_of(103, "chunk:3", Shard::strided, Uneven::exact, 1), 2));
  for (const std::uint64_t world_size : {2u, 3u, 8u}) {
    PlanSpec spec = spec_of(103, "chunk:3", Shard::strided, Uneven::exact, world_size);
    Samples merged(single.size(), -1);
    for (; spec.rank < world_size; ++spec.rank) {
      const Samples own = flat(batches_of(spec, 2));
      for (std::size_t i = 0; i < own.size(); ++i) merged.at(i * world_size + spec.rank) = own[i];
    }
    EXPECT_EQ(merged, single) << world_size << " ranks";
  }
}

TEST(ContiguousShard, gives_each_rank_a_run_of_the_global_order) {
  const Samples single = flat(batches_of(spec_of(103, "full", Shard::strided, Uneven::exact, 1), 0));
  EXPECT_EQ(all_ranks(spec_of(103, "full", Shard::contiguous, Uneven::exact, 4), 0), single);
}

TEST(ChunkShard, gives_each_chunk_to_one_rank_and_another_one_in_the_next_epoch) {
  PlanSpec spec = spec_of(103, "full", Shard::by_chunk, Uneven::exact, 4);
  std::map<std::int64_t, std::vector<std::uint64_t>> owners;  // chunk → owner by epoch
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    for (spec.rank = 0; spec.rank < 4; ++spec.rank) {
      std::set<std::int64_t> chunks;
      for (const std::int64_t sample : flat(batches_of(spec, epoch))) chunks.insert(sample / 10);
      EXPECT_GE(chunks.size(), 2u);
      for (const std::int64_t chunk : chunks) owners[chunk].push_back(spec.rank);
    }
  }
  ASSERT_EQ(owners.size(), 11u);
  for (const auto& [chunk, by_epoch] : owners) {
    EXPECT_EQ(by_epoch.size(), 4u) << "chunk " << chunk << " had more than one owner in an epoch";
    EXPECT_THAT(by_epoch, testing::UnorderedElementsAre(0, 1, 2, 3));
  }
}

TEST(ChunkShard, orders_a_rank_s_samples_by_the_shuffle) {
  PlanSpec spec = spec_of(103, "sequential", Shard::by_chunk, Uneven::exact, 2);
  EXPECT_TRUE(std::ranges::is_sorted(flat(batches_of(spec, 0))));
  spec.shuffle = "full";
  EXPECT_FALSE(std::ranges::is_sorted(flat(batches_of(spec, 0))));
  EXPECT_NE(batches_of(spec, 0), batches_of(spec, 1));
}

// As a plan only: no such machine is needed.
TEST(Shards, work_for_hundreds_of_ranks) {
  std::uint64_t number = 0;
  for (const std::uint64_t world_size : {256u, 1024u}) {
    for (const Shard shard : {Shard::strided, Shard::contiguous, Shard::by_chunk}) {
      for (const Uneven uneven : {Uneven::exact, Uneven::pad, Uneven::drop}) {
        if (number++ % kCaseStep != 0) continue;
        PlanSpec spec = spec_of(50'001, "full", shard, uneven, world_size);
        const Samples all = all_ranks(spec, 0);
        const auto counted = counts(all);
        if (uneven != Uneven::drop) {
          EXPECT_EQ(counted.size(), 50'001u);
        }
        if (uneven != Uneven::pad) {
          EXPECT_EQ(counted.size(), all.size());
        }
        if (uneven != Uneven::exact) {
          EXPECT_EQ(all.size() % world_size, 0u);
        }
      }
    }
  }
}

// These pin the orders that users' runs depend on. They may never change within a major version.
TEST(ShardGolden, keeps_its_orders) {
  PlanSpec spec = spec_of(95, "chunk:3", Shard::by_chunk, Uneven::exact, 2);
  spec.seed = 7;
  spec.batch_size = 8;
  EXPECT_THAT(EpochPlan(spec, 1).batch(0), ElementsAre(72, 61, 75, 73, 31, 68, 71, 65));
  spec = spec_of(95, "full", Shard::strided, Uneven::exact, 1);
  spec.subset = every_third(95);
  EXPECT_THAT(EpochPlan(spec, 0).batch(0), ElementsAre(84, 93, 78, 66));
  spec.shuffle = "chunk:2";
  EXPECT_THAT(EpochPlan(spec, 0).batch(0), ElementsAre(42, 24, 45, 27));
}

TEST(PlanHash, tells_orders_apart_and_leaves_the_rest_out) {
  const PlanSpec spec = spec_of(103, "chunk:3", Shard::strided, Uneven::exact, 1);
  std::set<std::uint64_t> hashes = {plan_hash(spec)};
  PlanSpec same = spec;
  same.batch_size = 32;
  same.world_size = 4;
  same.rank = 3;
  same.start = 50;
  same.seed = 99;
  EXPECT_EQ(plan_hash(same), plan_hash(spec));
  const auto differs = [&](auto change) {
    PlanSpec other = spec;
    change(other);
    return hashes.insert(plan_hash(other)).second;
  };
  EXPECT_TRUE(differs([](PlanSpec& s) { s.num_samples = 104; }));
  EXPECT_TRUE(differs([](PlanSpec& s) { s.rows_per_chunk = 20; }));
  EXPECT_TRUE(differs([](PlanSpec& s) { s.shuffle = "chunk:4"; }));
  EXPECT_TRUE(differs([](PlanSpec& s) { s.shuffle = "full"; }));
  EXPECT_TRUE(differs([](PlanSpec& s) { s.shuffle = "sequential"; }));
  EXPECT_TRUE(differs([](PlanSpec& s) { s.shard = Shard::contiguous; }));
  EXPECT_TRUE(differs([](PlanSpec& s) { s.uneven = Uneven::pad; }));
  EXPECT_TRUE(differs([](PlanSpec& s) { s.subset = every_third(103); }));
  PlanSpec full = spec;
  full.shuffle = "full";
  const std::uint64_t before = plan_hash(full);
  full.rows_per_chunk = 20;
  EXPECT_EQ(plan_hash(full), before) << "a repacked file with a full shuffle goes on";
}

TEST(LargePlans, take_no_memory_for_a_billion_samples) {
  PlanSpec spec{
      .num_samples = 1'000'000'000, .rows_per_chunk = 100, .shuffle = "full", .seed = 1, .batch_size = 256};
  spec.world_size = 8;
  spec.rank = 3;
  spec.start = 899'999'744;
  const EpochPlan plan(spec, 5);
  static_assert(sizeof(EpochPlan) < 1024);
  EXPECT_EQ(plan.num_batches(), (1'000'000'000u - 899'999'744u + 2047) / 2048);
  for (const std::int64_t sample : plan.batch(0)) {
    ASSERT_LT(sample, 1'000'000'000);
    ASSERT_TRUE(plan.turn_of(static_cast<std::uint64_t>(sample)));
    ASSERT_LT(*plan.turn_of(static_cast<std::uint64_t>(sample)), 256u);
  }
}

}  // namespace
}  // namespace h5feed::test
