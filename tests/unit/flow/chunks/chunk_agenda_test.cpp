// SPDX-License-Identifier: Apache-2.0
// The agenda of chunks: each visit is done once, chunks are fetched in the order of their deadlines and
// never more than the depth allows.
#include "flow/chunks/chunk_agenda.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "flow/chunks/served_rows.hpp"
#include "support/loaders/no_resume.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using Turn = ChunkAgenda::Turn;

constexpr std::size_t kBytes = 10;

std::shared_ptr<BatchJob> job_of(std::uint64_t ticket, const std::vector<std::uint64_t>& chunks) {
  static const auto plan = std::make_shared<const EpochPlan>(PlanSpec{.num_samples = 1}, 0);
  auto job = std::make_shared<BatchJob>(ticket, 1, plan, 0, ticket);
  for (const std::uint64_t chunk : chunks)
    job->visits.push_back({.field = kData, .chunk = chunk, .num_rows = 1});
  return job;
}

// Ends the read of a chunk with bytes that hold its number.
void fetch(ChunkAgenda& agenda, ChunkKey key) {
  ByteBuffer buffer = agenda.buffer(kBytes);
  std::memset(buffer.data(), static_cast<int>(key.chunk), kBytes);
  agenda.fetched(key, std::move(buffer), kBytes);
}

TEST(ChunkAgenda, gives_a_visit_to_one_taker) {
  ChunkAgenda agenda(0);
  const auto job = job_of(0, {4, 5});
  agenda.add(job);
  EXPECT_EQ(agenda.begin({job, 0}, no_resume), Turn::go);
  EXPECT_TRUE(agenda.claim({job, 0}));
  EXPECT_FALSE(agenda.claim({job, 0}));
  EXPECT_EQ(agenda.begin({job, 0}, no_resume), Turn::claimed);
  EXPECT_EQ(agenda.size(), 1u);
  EXPECT_TRUE(agenda.contains({kData, 5}));
  EXPECT_FALSE(agenda.contains({kData, 4}));
}

TEST(ChunkAgenda, announces_a_chunk_again_if_its_visit_did_not_need_it) {
  ChunkAgenda agenda(2);
  agenda.note_read(true);
  const auto first = job_of(0, {4});
  const auto second = job_of(1, {4, 5});
  agenda.add(first);
  agenda.add(second);
  EXPECT_EQ(agenda.begin({first, 0}, no_resume), Turn::go);
  EXPECT_THAT(agenda.unclaimed({kData, 4}), ElementsAre(VisitRef{first, 0}, VisitRef{second, 0}));
  EXPECT_TRUE(agenda.claim_without_chunk({first, 0}));
  EXPECT_FALSE(agenda.claim_without_chunk({first, 0}));
  EXPECT_THAT(agenda.unclaimed({kData, 4}), ElementsAre(VisitRef{second, 0}));
  EXPECT_EQ(agenda.next_to_read(), (ChunkKey{kData, 4})) << "the second batch needs it before chunk 5";
  EXPECT_TRUE(agenda.claim_without_chunk({second, 0})) << "while it is being read";
  EXPECT_TRUE(agenda.unclaimed({kData, 4}).empty());
  fetch(agenda, {kData, 4});
  EXPECT_EQ(agenda.next_to_read(), (ChunkKey{kData, 5}));
}

TEST(ChunkAgenda, hands_all_visits_of_a_chunk_to_the_thread_that_loaded_it) {
  ChunkAgenda agenda(0);
  const auto first = job_of(0, {4, 5});
  const auto second = job_of(1, {5, 6});
  agenda.add(first);
  agenda.add(second);
  EXPECT_THAT(agenda.claim_all({kData, 5}), ElementsAre(VisitRef{first, 1}, VisitRef{second, 0}));
  EXPECT_EQ(agenda.begin({second, 0}, no_resume), Turn::claimed);
  EXPECT_TRUE(agenda.claim_all({kData, 5}).empty());
  EXPECT_EQ(agenda.begin({second, 1}, no_resume), Turn::go);
}

// A worker that was stopped between the two steps, with a cache that has let the chunk go since.
TEST(ChunkAgenda, loads_no_chunk_again_for_a_visit_that_was_done_meanwhile) {
  ChunkAgenda agenda(0);
  ChunkCache cache(0);
  const auto job = job_of(0, {4});
  const auto next_job = job_of(1, {4});
  agenda.add(job);
  agenda.add(next_job);
  const VisitRef slow{job, 0};
  const VisitRef fast{next_job, 0};
  EXPECT_EQ(agenda.begin(slow, no_resume), Turn::go);
  EXPECT_EQ(agenda.begin(fast, no_resume), Turn::go);
  {
    ChunkCache::Lookup found = agenda.look_up(fast, cache, kBytes, no_resume);
    auto* const load = std::get_if<ChunkCache::Load>(&found);
    ASSERT_NE(load, nullptr);
    load->buffer();
    EXPECT_THAT(agenda.claim_all({kData, 4}), ElementsAre(slow, fast));
    const ChunkCache::Pin pin = std::move(*load).publish();
  }
  ASSERT_FALSE(cache.contains({kData, 4}));
  const ChunkCache::Lookup found = agenda.look_up(slow, cache, kBytes, no_resume);
  EXPECT_TRUE(std::holds_alternative<ChunkCache::Pending>(found));
  EXPECT_FALSE(cache.contains({kData, 4})) << "nor is it about to be loaded";
  cache.check_invariants();
}

TEST(ChunkAgenda, leaves_direct_visits_to_their_tasks) {
  ChunkAgenda agenda(0);
  const auto job = job_of(0, {1});
  job->visits.front().direct = true;
  agenda.add(job);
  EXPECT_EQ(agenda.size(), 0u);
}

TEST(ChunkAgenda, reads_in_the_order_of_deadlines) {
  ChunkAgenda agenda(8);
  agenda.add(job_of(0, {30, 10}));
  agenda.add(job_of(1, {20, 10}));
  agenda.note_read(true);
  EXPECT_EQ(agenda.next_to_read(), (ChunkKey{kData, 30}));
  EXPECT_EQ(agenda.next_to_read(), (ChunkKey{kData, 10}));
  EXPECT_EQ(agenda.next_to_read(), (ChunkKey{kData, 20}));
}

TEST(ChunkAgenda, hands_fetched_bytes_to_the_worker) {
  ChunkAgenda agenda(1);
  const auto job = job_of(0, {7});
  agenda.add(job);
  agenda.note_read(true);
  const auto key = agenda.next_to_read();
  ASSERT_EQ(key, (ChunkKey{kData, 7}));
  int resumed = 0;
  EXPECT_EQ(agenda.begin({job, 0}, [&] { ++resumed; }), Turn::reading);
  fetch(agenda, *key);
  EXPECT_EQ(resumed, 1);
  EXPECT_EQ(agenda.begin({job, 0}, no_resume), Turn::go);
  ByteBuffer raw;
  ASSERT_EQ(agenda.take_fetched(*key, raw), kBytes);
  EXPECT_EQ(std::to_integer<int>(raw.span()[kBytes - 1]), 7);
  EXPECT_EQ(agenda.take_fetched(*key, raw), 0u) << "they are handed out once";
  EXPECT_EQ(std::to_integer<int>(raw.span()[0]), 7) << "and the buffer stays";
}

TEST(ChunkAgenda, lets_the_worker_read_where_fetching_failed) {
  ChunkAgenda agenda(1);
  const auto job = job_of(0, {7});
  agenda.add(job);
  agenda.note_read(true);
  const auto key = agenda.next_to_read();
  agenda.fetched(*key, {}, 0);
  EXPECT_EQ(agenda.begin({job, 0}, no_resume), Turn::go);
  ByteBuffer raw;
  EXPECT_EQ(agenda.take_fetched(*key, raw), 0u);
}

TEST(ChunkAgenda, does_not_fetch_what_a_worker_has_begun) {
  ChunkAgenda agenda(8);
  const auto job = job_of(0, {1, 2});
  agenda.add(job);
  EXPECT_EQ(agenda.begin({job, 0}, no_resume), Turn::go);
  agenda.note_read(true);
  EXPECT_EQ(agenda.next_to_read(), (ChunkKey{kData, 2}));
}

// `next_to_read` in another thread returns only once a fetched chunk has been used.
TEST(ChunkAgenda, fetches_no_more_than_its_depth) {
  ChunkAgenda agenda(2);
  const auto job = job_of(0, {1, 2, 3});
  agenda.add(job);
  agenda.note_read(true);
  fetch(agenda, agenda.next_to_read().value());
  fetch(agenda, agenda.next_to_read().value());
  std::atomic<bool> used = false;
  bool used_before = false;
  std::jthread reader([&] {
    const auto key = agenda.next_to_read();
    used_before = used;
    EXPECT_EQ(key, (ChunkKey{kData, 3}));
  });
  EXPECT_EQ(agenda.begin({job, 0}, no_resume), Turn::go);
  ByteBuffer raw;
  used = true;
  EXPECT_EQ(agenda.take_fetched({kData, 1}, raw), kBytes);
  reader.join();
  EXPECT_TRUE(used_before);
}

TEST(ChunkAgenda, makes_room_when_nobody_wants_a_fetched_chunk_any_more) {
  ChunkAgenda agenda(1);
  const auto job = job_of(0, {1, 2});
  agenda.add(job);
  agenda.note_read(true);
  fetch(agenda, agenda.next_to_read().value());
  EXPECT_TRUE(agenda.claim({job, 0}));
  EXPECT_EQ(agenda.next_to_read(), (ChunkKey{kData, 2}));
  EXPECT_TRUE(agenda.claim({job, 1})) << "dropped while it is being read";
  fetch(agenda, {kData, 2});
  EXPECT_EQ(agenda.size(), 0u);
  agenda.add(job_of(1, {3}));
  EXPECT_EQ(agenda.next_to_read(), (ChunkKey{kData, 3}));
}

TEST(ChunkAgenda, fetches_only_while_reads_have_lately_waited) {
  ChunkAgenda agenda(4);
  EXPECT_FALSE(agenda.note_read(false));
  EXPECT_TRUE(agenda.note_read(true));
  int reads = 0;
  while (agenda.note_read(false)) ASSERT_LT(++reads, 1000);
  EXPECT_GT(reads, 0) << "one fast read does not end it";
  ChunkAgenda never(0);
  EXPECT_FALSE(never.note_read(true));
}

TEST(ChunkAgenda, stops_waiting_readers) {
  ChunkAgenda agenda(1);
  std::jthread reader([&] { EXPECT_EQ(agenda.next_to_read(), std::nullopt); });
  agenda.stop();
}

TEST(ServedRows, tells_when_a_round_has_taken_every_row_of_a_chunk) {
  ServedRows served(2);
  EXPECT_FALSE(served.add(1, 1, 6, 10));
  EXPECT_FALSE(served.add(0, 1, 4, 10));
  EXPECT_TRUE(served.add(1, 1, 4, 10));
  EXPECT_FALSE(served.add(1, 2, 4, 10)) << "the next round starts from nothing";
  EXPECT_TRUE(served.add(1, 2, 6, 10));
}

TEST(ServedRows, does_not_count_rows_of_two_rounds_together) {
  ServedRows served(1);
  EXPECT_FALSE(served.add(0, 1, 6, 10));
  EXPECT_FALSE(served.add(0, 2, 4, 10));
  EXPECT_FALSE(served.add(0, 1, 4, 10));
}

}  // namespace
}  // namespace h5feed::test
