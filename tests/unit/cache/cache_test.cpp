// SPDX-License-Identifier: Apache-2.0
// The chunk cache: bounds, order of eviction, single flight.
#include "cache/chunk_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "support/loaders/no_resume.hpp"

namespace h5feed::test {
namespace {

constexpr std::size_t kChunk = 1000;

/// Looks a chunk up and, where it has to be loaded, fills it with its number.
ChunkCache::Pin get(ChunkCache& cache, std::uint64_t chunk, std::size_t bytes = kChunk) {
  ChunkCache::Lookup found = cache.lookup({0, chunk}, bytes, no_resume);
  if (auto* pin = std::get_if<ChunkCache::Pin>(&found)) return std::move(*pin);
  auto& load = std::get<ChunkCache::Load>(found);
  std::memset(load.buffer().data(), static_cast<int>(chunk), bytes);
  return std::move(load).publish();
}

bool is_cached(ChunkCache& cache, std::uint64_t chunk) {
  const std::uint64_t misses = cache.stats().misses;
  get(cache, chunk);
  return cache.stats().misses == misses;
}

TEST(ChunkCache, returns_the_bytes_that_were_loaded) {
  ChunkCache cache(10 * kChunk);
  for (std::uint64_t c = 0; c < 5; ++c) get(cache, c);
  cache.check_invariants();
  for (std::uint64_t c = 0; c < 5; ++c) {
    const ChunkCache::Pin pin = get(cache, c);
    ASSERT_EQ(pin.bytes().size(), kChunk);
    for (const std::byte b : pin.bytes()) ASSERT_EQ(std::to_integer<std::uint64_t>(b), c);
  }
  EXPECT_EQ(cache.stats().hits, 5u);
  EXPECT_EQ(cache.stats().misses, 5u);
}

TEST(ChunkCache, evicts_the_least_recently_used_chunk) {
  ChunkCache cache(3 * kChunk);
  for (std::uint64_t c = 1; c <= 3; ++c) get(cache, c);
  get(cache, 1);  // now 2 is the oldest
  get(cache, 4);
  cache.check_invariants();
  EXPECT_EQ(cache.stats().evictions, 1u);
  EXPECT_TRUE(is_cached(cache, 1));
  EXPECT_TRUE(is_cached(cache, 3));
  EXPECT_TRUE(is_cached(cache, 4));
  EXPECT_FALSE(is_cached(cache, 2));
}

TEST(ChunkCache, evicts_retired_chunks_first_the_latest_before_the_others) {
  ChunkCache cache(3 * kChunk);
  for (std::uint64_t c = 1; c <= 3; ++c) get(cache, c);
  get(cache, 2).retire();
  get(cache, 3).retire();
  get(cache, 4);  // takes the memory of 3
  cache.check_invariants();
  EXPECT_TRUE(is_cached(cache, 1));
  EXPECT_TRUE(is_cached(cache, 4));
  EXPECT_TRUE(is_cached(cache, 2)) << "and a lookup ends its retirement";
  get(cache, 5);
  EXPECT_TRUE(is_cached(cache, 2));
  EXPECT_FALSE(is_cached(cache, 1));
}

TEST(ChunkCache, keeps_fields_apart) {
  ChunkCache cache(10 * kChunk);
  get(cache, 7);
  ChunkCache::Lookup other_field = cache.lookup({1, 7}, kChunk, no_resume);
  EXPECT_TRUE(std::holds_alternative<ChunkCache::Load>(other_field));
}

TEST(ChunkCache, never_holds_more_than_its_capacity_once_pins_are_gone) {
  ChunkCache cache(4 * kChunk);
  for (std::uint64_t c = 0; c < 100; ++c) {
    get(cache, c);
    cache.check_invariants();
    ASSERT_LE(cache.stats().held_bytes, 4 * kChunk);
  }
  EXPECT_EQ(cache.stats().peak_bytes, 4 * kChunk);
}

TEST(ChunkCache, does_not_evict_a_pinned_chunk) {
  ChunkCache cache(2 * kChunk);
  const ChunkCache::Pin first = get(cache, 1);
  const ChunkCache::Pin second = get(cache, 2);
  get(cache, 3);  // no room: passes through
  cache.check_invariants();
  EXPECT_EQ(std::to_integer<int>(first.bytes()[0]), 1);
  EXPECT_EQ(std::to_integer<int>(second.bytes()[kChunk - 1]), 2);
  EXPECT_FALSE(is_cached(cache, 3));
}

TEST(ChunkCache, passes_a_chunk_larger_than_its_capacity_through) {
  ChunkCache cache(kChunk / 2);
  for (int round = 0; round < 3; ++round) {
    const ChunkCache::Pin pin = get(cache, 5);
    EXPECT_EQ(std::to_integer<int>(pin.bytes()[0]), 5);
  }
  cache.check_invariants();
  EXPECT_EQ(cache.stats().misses, 3u);
  EXPECT_LE(cache.stats().held_bytes, kChunk) << "the buffer is kept for the next load, and only that one";
}

TEST(ChunkCache, keeps_what_fits_when_it_was_overcommitted) {
  ChunkCache cache(2 * kChunk);
  {
    const ChunkCache::Pin a = get(cache, 1);
    const ChunkCache::Pin b = get(cache, 2);
    const ChunkCache::Pin c = get(cache, 3);
  }  // the first to go leaves the cache, the other two fit
  cache.check_invariants();
  const std::uint64_t misses = cache.stats().misses;
  get(cache, 1);
  get(cache, 2);
  EXPECT_EQ(cache.stats().misses, misses);
}

TEST(ChunkCache, mixes_chunk_sizes_within_its_capacity) {
  ChunkCache cache(10 * kChunk);
  for (std::uint64_t c = 0; c < 200; ++c) {
    get(cache, c, kChunk * (1 + c % 4));
    cache.check_invariants();
    ASSERT_LE(cache.stats().held_bytes, 10 * kChunk);
  }
}

TEST(ChunkCache, keeps_a_second_lookup_waiting_until_the_load_is_published) {
  ChunkCache cache(10 * kChunk);
  ChunkCache::Lookup first = cache.lookup({0, 1}, kChunk, no_resume);
  int resumed = 0;
  const ChunkCache::Lookup second = cache.lookup({0, 1}, kChunk, [&] { ++resumed; });
  EXPECT_TRUE(std::holds_alternative<ChunkCache::Pending>(second));
  cache.check_invariants();
  auto& load = std::get<ChunkCache::Load>(first);
  std::memset(load.buffer().data(), 9, kChunk);
  EXPECT_EQ(resumed, 0);
  const ChunkCache::Pin pin = std::move(load).publish();
  EXPECT_EQ(resumed, 1);
  EXPECT_TRUE(is_cached(cache, 1));
}

TEST(ChunkCache, hands_the_load_on_when_it_is_given_up) {
  ChunkCache cache(10 * kChunk);
  int resumed = 0;
  {
    ChunkCache::Lookup first = cache.lookup({0, 1}, kChunk, no_resume);
    cache.lookup({0, 1}, kChunk, [&] { ++resumed; });
    std::get<ChunkCache::Load>(first).buffer();
  }  // destroyed without publish(), as by an exception
  EXPECT_EQ(resumed, 1);
  cache.check_invariants();
  EXPECT_EQ(cache.stats().held_bytes, 0u);
  ChunkCache::Lookup again = cache.lookup({0, 1}, kChunk, no_resume);
  EXPECT_TRUE(std::holds_alternative<ChunkCache::Load>(again));
}

TEST(ChunkCache, check_invariants_finds_nothing_wrong_while_loads_are_open) {
  ChunkCache cache(3 * kChunk);
  ChunkCache::Lookup a = cache.lookup({0, 1}, kChunk, no_resume);
  std::get<ChunkCache::Load>(a).buffer();
  const ChunkCache::Pin pin = get(cache, 2);
  get(cache, 3);
  EXPECT_NO_THROW(cache.check_invariants());
}

TEST(ChunkCache, lets_the_first_chunks_stay_for_good_and_the_rest_come_and_go) {
  ChunkCache cache(4 * kChunk, 3 * kChunk);
  for (std::uint64_t c = 0; c < 20; ++c) {
    get(cache, c).retire();
    cache.check_invariants();
  }
  for (std::uint64_t c = 0; c < 3; ++c) EXPECT_TRUE(cache.contains({0, c})) << c;
  EXPECT_TRUE(cache.contains({0, 19}));
  EXPECT_FALSE(cache.contains({0, 18}));
  EXPECT_EQ(cache.stats().evictions, 16u);
  const ChunkCache::Pin pin = get(cache, 1);
  EXPECT_EQ(std::to_integer<int>(pin.bytes().front()), 1);
  cache.check_invariants();
  EXPECT_LE(cache.stats().peak_bytes, 4 * kChunk);
}

// Many threads ask for few chunks in a small cache; every value read must be the chunk's own, and one
// chunk must never be loaded by two threads at once.
TEST(ChunkCacheStress, serves_the_right_bytes_to_many_threads) {
  constexpr int kThreads = 8;
  constexpr int kLookups = 4000;
  constexpr std::uint64_t kChunks = 12;
  ChunkCache cache(5 * kChunk);
  std::vector<std::atomic<int>> loading(kChunks);
  std::atomic<std::uint64_t> wrong = 0;
  std::atomic<std::uint64_t> done = 0;
  std::barrier start(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        start.arrive_and_wait();
        std::uint64_t draw = static_cast<std::uint64_t>(t) + 1;
        for (int i = 0; i < kLookups; ++i) {
          draw = draw * 6364136223846793005ull + 1442695040888963407ull;
          const std::uint64_t chunk = (draw >> 33) % kChunks;
          // Here a thread may wait, so that every lookup ends with the bytes.
          while (true) {
            // Shared: the loading thread notifies after this one may have gone on.
            const auto resumed = std::make_shared<std::atomic<bool>>(false);
            ChunkCache::Lookup found = cache.lookup({0, chunk}, kChunk, [resumed] {
              resumed->store(true);
              resumed->notify_all();
            });
            if (std::holds_alternative<ChunkCache::Pending>(found)) {
              resumed->wait(false);
              continue;
            }
            if (auto* load = std::get_if<ChunkCache::Load>(&found)) {
              if (loading[chunk].fetch_add(1) != 0) ++wrong;
              std::memset(load->buffer().data(), static_cast<int>(chunk), kChunk);
              loading[chunk].fetch_sub(1);
              if (i % 17 == 0) break;  // given up: somebody else loads it
              const ChunkCache::Pin pin = std::move(*load).publish();
              if (std::to_integer<std::uint64_t>(pin.bytes()[kChunk / 2]) != chunk) ++wrong;
            } else if (std::to_integer<std::uint64_t>(
                           std::get<ChunkCache::Pin>(found).bytes()[static_cast<std::size_t>(i) % kChunk]) !=
                       chunk) {
              ++wrong;
            }
            break;
          }
          ++done;
        }
      });
    }
  }
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_EQ(done.load(), static_cast<std::uint64_t>(kThreads) * kLookups);
  cache.check_invariants();
  EXPECT_LE(cache.stats().held_bytes, (5 + kThreads) * kChunk);
}

}  // namespace
}  // namespace h5feed::test
