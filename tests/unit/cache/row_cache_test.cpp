// SPDX-License-Identifier: Apache-2.0
// The cache of rows: what stays, what goes, and that leased bytes are nobody else's.
#include "cache/row_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using Turns = std::vector<std::uint64_t>;

constexpr std::size_t kRow = 40;

// A row's bytes tell its turn.
struct Row {
  explicit Row(std::uint64_t turn) { std::memset(bytes, static_cast<int>(turn % 251), kRow); }
  std::byte bytes[kRow];
};

bool tells(const std::byte* bytes, std::uint64_t turn) {
  const Row expected(turn);
  return std::memcmp(bytes, expected.bytes, kRow) == 0;
}

void put(RowCache& cache, Turns turns) {
  std::ranges::sort(turns);
  std::vector<Row> rows;
  std::vector<RowCache::Candidate> candidates;
  for (const std::uint64_t turn : turns) rows.emplace_back(turn);
  for (std::size_t i = 0; i < turns.size(); ++i) candidates.push_back({turns[i], rows[i].bytes});
  cache.put(candidates);
  cache.check_invariants();
}

Turns held(const RowCache& cache, std::uint64_t below = 100) {
  Turns turns;
  for (std::uint64_t turn = 0; turn < below; ++turn) {
    if (cache.contains(Turns{turn})) turns.push_back(turn);
  }
  return turns;
}

TEST(RowCache, gives_back_the_bytes_of_each_turn_and_forgets_them) {
  RowCache cache(kRow, 10);
  put(cache, {3, 5, 9});
  const std::optional<RowCache::Lease> rows = cache.take(Turns{9, 3});
  ASSERT_TRUE(rows);
  EXPECT_TRUE(tells(rows->row(0), 9));
  EXPECT_TRUE(tells(rows->row(1), 3));
  EXPECT_THAT(held(cache), ElementsAre(5));
  cache.check_invariants();
}

TEST(RowCache, takes_all_rows_or_none) {
  RowCache cache(kRow, 10);
  put(cache, {3, 5});
  EXPECT_FALSE(cache.take(Turns{3, 4}));
  EXPECT_FALSE(cache.contains(Turns{3, 4}));
  EXPECT_THAT(held(cache), ElementsAre(3, 5));
  EXPECT_TRUE(cache.take(Turns{}));
}

TEST(RowCache, evicts_the_row_due_latest_for_one_due_earlier) {
  RowCache cache(kRow, 4);
  put(cache, {10, 20, 30, 40});
  put(cache, {15, 35, 50});
  EXPECT_THAT(held(cache), ElementsAre(10, 15, 20, 30)) << "35 came when 30 was the latest";
  put(cache, {60});
  EXPECT_THAT(held(cache), ElementsAre(10, 15, 20, 30));
}

TEST(RowCache, keeps_the_first_bytes_of_a_turn) {
  RowCache cache(kRow, 4);
  put(cache, {10, 20});
  put(cache, {10, 20, 30});
  EXPECT_EQ(cache.size(), 3u);
}

TEST(RowCache, files_given_back_rows_under_their_next_turn_without_evicting) {
  RowCache cache(kRow, 3);
  put(cache, {1, 2, 50});
  std::optional<RowCache::Lease> rows = cache.take(Turns{1, 2});
  std::move(*rows).give_back(Turns{RowCache::kNever, 90});
  cache.check_invariants();
  EXPECT_THAT(held(cache), ElementsAre(50, 90));
  EXPECT_TRUE(tells(cache.take(Turns{90})->row(0), 2)) << "the bytes of the row that was taken by 2";
}

TEST(RowCache, gives_the_place_of_a_dropped_lease_to_others) {
  RowCache cache(kRow, 2);
  put(cache, {1, 2});
  {
    const std::optional<RowCache::Lease> rows = cache.take(Turns{1});
    put(cache, {7, 8});
    EXPECT_THAT(held(cache), ElementsAre(2)) << "leased rows take their place still";
  }
  put(cache, {7, 8});
  EXPECT_THAT(held(cache), ElementsAre(2, 7));
}

TEST(RowCache, neither_keeps_nor_takes_what_is_past) {
  RowCache cache(kRow, 10);
  put(cache, {1, 5, 9});
  cache.forget_before(5);
  cache.check_invariants();
  EXPECT_THAT(held(cache), ElementsAre(5, 9));
  put(cache, {2, 6});
  EXPECT_THAT(held(cache), ElementsAre(5, 6, 9));
  cache.forget_before(0);  // the same turns may come again
  put(cache, {2});
  EXPECT_THAT(held(cache), ElementsAre(2, 5, 6, 9));
}

TEST(RowCache, drops_rows_by_turn) {
  RowCache cache(kRow, 10);
  put(cache, {1, 5, 9});
  cache.drop(Turns{5, 6});
  cache.check_invariants();
  EXPECT_THAT(held(cache), ElementsAre(1, 9));
}

TEST(RowCache, without_capacity_holds_nothing) {
  RowCache cache(kRow, 0);
  put(cache, {1, 2});
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.held_bytes(), 0u);
}

TEST(RowCache, takes_memory_as_it_fills_and_no_more_than_it_says) {
  constexpr std::uint32_t kRows = 300'000;
  const auto in_use = [] {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<std::int64_t>(info.uordblks + info.hblkhd);  // nothing under a sanitizer's own heap
  };
  const std::int64_t before = in_use();
  RowCache cache(kRow, kRows);
  EXPECT_EQ(cache.held_bytes(), 0u);
  std::vector<RowCache::Candidate> candidates;
  candidates.reserve(kRows + 1);
  const Row row(0);
  for (std::uint64_t turn = 0; turn <= kRows; ++turn) candidates.push_back({turn, row.bytes});
  const auto ours = static_cast<std::int64_t>(candidates.capacity() * sizeof(RowCache::Candidate));
  cache.put(candidates);
  EXPECT_EQ(cache.size(), kRows);
  EXPECT_EQ(cache.held_bytes(), kRows * (kRow + RowCache::kBookkeepingBytes));
  // Slabs come with their alignment: below a page of 2 MiB each.
  EXPECT_LE(in_use() - before - ours,
            static_cast<std::int64_t>(cache.held_bytes() + 3 * ByteBuffer::kHugePageBytes));
}

// A model of the rule against the cache, step by step.
TEST(RowCache, agrees_with_a_model) {
  constexpr std::size_t kCapacity = 12;
  RowCache cache(kRow, kCapacity);
  std::set<std::uint64_t> model;
  std::uint64_t draw = 9;
  const auto random = [&](std::uint64_t below) {
    draw = draw * 6364136223846793005ull + 1442695040888963407ull;
    return (draw >> 33) % below;
  };
  for (int step = 0; step < 3000; ++step) {
    Turns turns;
    for (std::uint64_t i = 0; i < 1 + random(5); ++i) turns.push_back(random(60));
    std::ranges::sort(turns);
    turns.erase(std::unique(turns.begin(), turns.end()), turns.end());
    if (step % 2 == 0) {
      put(cache, turns);
      model.insert(turns.begin(), turns.end());
      while (model.size() > kCapacity) model.erase(std::prev(model.end()));
    } else {
      const bool all = std::ranges::all_of(turns, [&](std::uint64_t turn) { return model.contains(turn); });
      const std::optional<RowCache::Lease> rows = cache.take(turns);
      ASSERT_EQ(rows.has_value(), all);
      if (!all) continue;
      for (std::size_t i = 0; i < turns.size(); ++i) ASSERT_TRUE(tells(rows->row(i), turns[i]));
      for (const std::uint64_t turn : turns) model.erase(turn);
    }
    ASSERT_EQ(held(cache), Turns(model.begin(), model.end()));
  }
}

// Some threads file rows, others take them, give them back and move the past on. Bytes must always be
// those of the turn.
// Writers go on until every reader took its share, however the threads are scheduled.
TEST(RowCacheStress, serves_the_right_bytes_to_many_threads) {
  constexpr int kReaders = 4;
  constexpr int kWriters = 4;
  constexpr int kTakenByEach = 1000;
  constexpr std::uint64_t kTurns = 200;
  RowCache cache(kRow, 50);
  std::atomic<std::uint64_t> wrong = 0;
  std::atomic<int> reading = kReaders;
  std::barrier start(kReaders + kWriters);
  const auto next_turn = [](std::uint64_t& draw) {
    draw = draw * 6364136223846793005ull + 1442695040888963407ull;
    return (draw >> 33) % kTurns;
  };
  const auto read = [&](std::uint64_t draw) {
    start.arrive_and_wait();
    for (int step = 0, taken = 0; taken < kTakenByEach; ++step) {
      const std::uint64_t turn = next_turn(draw);
      if (std::optional<RowCache::Lease> rows = cache.take(Turns{turn})) {
        ++taken;
        if (!tells(rows->row(0), turn)) ++wrong;
        // The same bytes stay right only under a turn that tells the same.
        if (step % 3 == 0) std::move(*rows).give_back(Turns{turn});
      } else if (step % 64 == 0) {
        cache.forget_before(turn / 4);
      } else {
        cache.drop(Turns{turn});
      }
    }
    --reading;
  };
  const auto write = [&](std::uint64_t draw) {
    start.arrive_and_wait();
    while (reading > 0) {
      const std::uint64_t turn = next_turn(draw);
      const Row row(turn);
      cache.put(std::vector{RowCache::Candidate{turn, row.bytes}});
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t t = 0; t < kReaders; ++t) threads.emplace_back(read, 2 * t + 1);
    for (std::uint64_t t = 0; t < kWriters; ++t) threads.emplace_back(write, 2 * t + 2);
  }
  EXPECT_EQ(wrong.load(), 0u);
  cache.check_invariants();
}

}  // namespace
}  // namespace h5feed::test
