// SPDX-License-Identifier: Apache-2.0
// The loader of chunks: who does a visit, where its rows lie, and what becomes of errors.
#include "flow/chunks/chunk_loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "h5feed/error.hpp"
#include "support/files/fault_source.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/no_resume.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kChunkRows = 10;

/// 30 samples in three chunks, without reader threads.
class ChunkLoading : public testing::Test {
 protected:
  ChunkLoading() {
    options_.batch_size = 5;
    options_.concurrent_decodes = 2;
  }

  // Opens the dataset with `fault` in the reads of its data.
  void open(std::uint64_t kept_samples = 0, const test::Fault& fault = {},
            RowKeeper::OnDevice on_device = {}) {
    const auto wrap = [&](std::shared_ptr<const ByteSource> source) {
      return std::make_shared<test::FaultSource>(std::move(source), fault);
    };
    dataset_.emplace(DatasetAccess::open({.files = {set_.path()}, .data = "images"}, wrap));
    loader_.emplace(ChunkLoader::Parts{*DatasetAccess::state(*dataset_), options_, cache_, kept_samples,
                                       counters_, std::move(on_device)});
  }

  // Returns a job that is on the agenda, with one visit of `rows` samples per chunk.
  std::shared_ptr<BatchJob> announce(std::uint64_t ticket, const std::vector<std::uint64_t>& chunks,
                                     std::uint64_t first_row = 0, std::uint32_t rows = 5) {
    auto job = std::make_shared<BatchJob>(ticket, 1, plan_, 0, ticket);
    job->first_turn = loader_->future().first_turn(ticket);
    job->rows.resize(1);
    for (const std::uint64_t chunk : chunks) {
      job->visits.push_back({.chunk = chunk,
                             .first_row = static_cast<std::uint32_t>(job->rows.front().size()),
                             .num_rows = rows});
      for (std::uint32_t row = 0; row < rows; ++row)
        job->rows.front().push_back({chunk * kChunkRows + first_row + row, row});
    }
    loader_->announce(job);
    return job;
  }

  std::size_t chunk_bytes() const { return kChunkRows * set_.sample_bytes(); }

  testing::AssertionResult holds_chunk(const std::byte* bytes, std::uint64_t chunk) const {
    const std::byte* const stored = set_.sample(static_cast<std::int64_t>(chunk * kChunkRows));
    if (std::memcmp(bytes, stored, chunk_bytes()) == 0) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "not the bytes of chunk " << chunk;
  }

  const test::SampleSet set_{{.shape = {30, 8, 6}, .chunk_shape = {kChunkRows, 8, 6}, .gzip = 4}};
  const std::shared_ptr<const EpochPlan> plan_ = std::make_shared<const EpochPlan>(
      PlanSpec{.num_samples = 30, .layout = RowLayout(30, kChunkRows), .batch_size = 5}, 0);
  ResolvedOptions options_;
  ChunkCache cache_{1 << 20};
  Counters counters_;
  std::optional<Dataset> dataset_;
  std::optional<ChunkLoader> loader_;
};

TEST_F(ChunkLoading, claims_all_visits_of_a_chunk_that_it_loads) {
  open();
  const auto first = announce(0, {0, 1});
  const auto second = announce(1, {0}, 5);
  ChunkLoader::Claim claim = loader_->claim({first, 0}, no_resume);
  EXPECT_THAT(claim.visits, ElementsAre(VisitRef{first, 0}, VisitRef{second, 0}));
  ASSERT_TRUE(claim.chunk);
  EXPECT_TRUE(holds_chunk(claim.chunk->bytes().data(), 0));
  loader_->finish(claim);
  EXPECT_THAT(loader_->claim({second, 0}, no_resume).visits, IsEmpty());
  EXPECT_EQ(counters_.cache_misses, 1u);
  EXPECT_EQ(counters_.cache_hits, 1u);
}

TEST_F(ChunkLoading, claims_one_visit_of_a_chunk_in_the_cache) {
  open();
  ASSERT_TRUE(loader_->preload({kData, 2}));
  const std::uint64_t reads = counters_.read_calls;
  const auto first = announce(0, {2});
  const auto second = announce(1, {2}, 5);
  const ChunkLoader::Claim claim = loader_->claim({first, 0}, no_resume);
  EXPECT_THAT(claim.visits, ElementsAre(VisitRef{first, 0}));
  ASSERT_TRUE(claim.chunk);
  EXPECT_TRUE(holds_chunk(claim.chunk->bytes().data(), 2));
  EXPECT_EQ(counters_.read_calls, reads);
  EXPECT_TRUE(loader_->drop({second, 0})) << "still on the agenda";
}

TEST_F(ChunkLoading, resumes_a_visit_once_the_load_of_another_thread_has_ended) {
  open();
  const auto job = announce(0, {1});
  int resumed = 0;
  {
    const ChunkCache::Lookup of_another = cache_.lookup({kData, 1}, chunk_bytes(), [] {});
    ASSERT_TRUE(std::holds_alternative<ChunkCache::Load>(of_another));
    const ChunkLoader::Claim claim = loader_->claim({job, 0}, [&] { ++resumed; });
    EXPECT_THAT(claim.visits, IsEmpty());
    EXPECT_FALSE(claim.chunk);
    EXPECT_EQ(resumed, 0);
  }
  EXPECT_EQ(resumed, 1) << "the other thread gave up";
  EXPECT_THAT(loader_->claim({job, 0}, no_resume).visits, ElementsAre(VisitRef{job, 0}));
}

TEST_F(ChunkLoading, takes_only_the_visit_off_the_agenda_whose_load_failed) {
  open(0, {.failing_read = 0});
  const auto first = announce(0, {0});
  const auto second = announce(1, {0}, 5);
  EXPECT_THROW(loader_->claim({first, 0}, no_resume), FileError);
  EXPECT_FALSE(loader_->drop({first, 0}));
  const ChunkLoader::Claim claim = loader_->claim({second, 0}, no_resume);
  EXPECT_THAT(claim.visits, ElementsAre(VisitRef{second, 0})) << "the next read succeeds";
}

TEST_F(ChunkLoading, leaves_an_error_met_ahead_of_time_to_the_visit) {
  open(0, {.failing_read = 0});
  const ChunkLoader::Claim ahead = loader_->load_ahead(0, 0, [] { return true; });
  EXPECT_FALSE(ahead.chunk);
  EXPECT_FALSE(cache_.contains({kData, 0}));
}

TEST_F(ChunkLoading, loads_ahead_what_is_neither_cached_nor_on_the_agenda) {
  open();
  const auto always = [] { return true; };
  EXPECT_TRUE(loader_->load_ahead(0, 0, always).chunk);
  EXPECT_FALSE(loader_->load_ahead(0, 0, always).chunk) << "in the cache";
  EXPECT_FALSE(loader_->load_ahead(1, 0, [] { return false; }).chunk) << "no longer ahead";
  const auto job = announce(0, {2});
  EXPECT_FALSE(loader_->load_ahead(2, 0, always).chunk) << "its visit loads it";
  EXPECT_EQ(counters_.chunk_loads, 1u);
}

TEST_F(ChunkLoading, loads_nothing_ahead_whose_samples_are_all_on_a_gpu) {
  open(0, {}, [](std::uint64_t sample) { return sample < 19; });
  const auto always = [] { return true; };
  EXPECT_FALSE(loader_->load_ahead(0, 0, always).chunk);
  EXPECT_TRUE(loader_->load_ahead(1, 0, always).chunk) << "sample 19 is not there";
  EXPECT_EQ(counters_.chunk_loads, 1u);
}

TEST_F(ChunkLoading, keeps_no_rows_of_samples_on_a_gpu) {
  for (const std::uint64_t on_gpu : {6u, 20u}) {
    open(10, {}, [on_gpu](std::uint64_t sample) { return sample == on_gpu; });
    loader_->future().issue({.plan = plan_}, {});
    cache_.set_capacity(0);
    ChunkLoader::Claim first = loader_->claim({announce(0, {0}), 0}, no_resume);
    loader_->finish(first);
    const ChunkLoader::Claim second = loader_->claim({announce(1, {0}, 5), 0}, no_resume);
    EXPECT_EQ(second.rows.has_value(), on_gpu == 20) << "samples 5 to 9";
    EXPECT_EQ(second.chunk.has_value(), on_gpu == 6);
  }
}

TEST_F(ChunkLoading, pins_a_chunk_once_the_thread_that_loads_it_is_done) {
  open();
  ChunkCache::Lookup of_another = cache_.lookup({kData, 1}, chunk_bytes(), [] {});
  auto& load = std::get<ChunkCache::Load>(of_another);
  std::jthread waiting([&] {
    const ChunkCache::Pin pin = loader_->pin({kData, 1});
    EXPECT_TRUE(holds_chunk(pin.bytes().data(), 1));
  });
  std::memcpy(load.buffer().data(), set_.sample(kChunkRows), chunk_bytes());
  std::move(load).publish();
  waiting.join();
  EXPECT_EQ(counters_.cache_misses, 0u);
  EXPECT_EQ(counters_.cache_hits, 1u);
}

TEST_F(ChunkLoading, preloads_while_the_cache_has_room) {
  open();
  cache_.set_capacity(2 * chunk_bytes());
  EXPECT_TRUE(loader_->preload({kData, 0}));
  EXPECT_TRUE(loader_->preload({kData, 1}));
  EXPECT_TRUE(loader_->preload({kData, 1})) << "there already";
  EXPECT_FALSE(loader_->preload({kData, 2}));
  EXPECT_EQ(counters_.chunk_loads, 2u);
}

TEST_F(ChunkLoading, serves_kept_rows_without_their_chunk) {
  open(10);
  loader_->future().issue({.plan = plan_}, {});
  cache_.set_capacity(0);
  const auto first = announce(0, {0});
  ChunkLoader::Claim claim = loader_->claim({first, 0}, no_resume);
  ASSERT_TRUE(claim.chunk);
  loader_->finish(claim);
  const auto second = announce(1, {0}, 5);
  ChunkLoader::Claim kept = loader_->claim({second, 0}, no_resume);
  EXPECT_THAT(kept.visits, ElementsAre(VisitRef{second, 0}));
  EXPECT_FALSE(kept.chunk);
  ASSERT_TRUE(kept.rows);
  for (std::size_t row = 0; row < 5; ++row) {
    EXPECT_EQ(std::memcmp(kept.rows->row(row), set_.sample(static_cast<std::int64_t>(5 + row)),
                          set_.sample_bytes()),
              0);
  }
  loader_->finish(kept);
  EXPECT_EQ(counters_.chunk_loads, 1u);
}

}  // namespace
}  // namespace h5feed::test
