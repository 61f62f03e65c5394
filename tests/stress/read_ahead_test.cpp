// SPDX-License-Identifier: Apache-2.0
// Slow storage: reads go on during decoding, every chunk is decoded once, and errors reach their batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/files/sample_set.hpp"
#include "support/files/sparse_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/stored_samples.hpp"

namespace h5feed::test {
namespace {

// Makes every reader sleep until `together` of them are in a read at once; a read that waits longer
// than the patience goes on alone. Counts the reads of every offset.
class GatheringSource final : public ByteSource {
 public:
  GatheringSource(std::shared_ptr<const ByteSource> source, int together, std::chrono::seconds patience)
      : source_(std::move(source)), together_(together), patience_(patience) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    {
      MutexLock lock(mutex_);
      ++reads_[offset];
      most_ = std::max(most_, ++inside_);
      met_.notify_all();
      const auto deadline = std::chrono::steady_clock::now() + patience_;
      while (most_ < together_ && met_.wait_until(lock, deadline)) {
      }
    }
    // Slow storage: the thread sleeps in every read.
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    source_->read(offset, out);
    const MutexLock lock(mutex_);
    --inside_;
  }
  std::uint64_t size() const noexcept override { return source_->size(); }

  int most_at_once() const {
    const MutexLock lock(mutex_);
    return most_;
  }
  std::map<std::uint64_t, int> reads() const {
    const MutexLock lock(mutex_);
    return reads_;
  }

 private:
  const std::shared_ptr<const ByteSource> source_;
  const int together_;
  const std::chrono::seconds patience_;
  mutable Mutex mutex_;
  mutable CondVar met_;
  mutable int inside_ H5FEED_GUARDED_BY(mutex_) = 0;
  mutable int most_ H5FEED_GUARDED_BY(mutex_) = 0;
  mutable std::map<std::uint64_t, int> reads_ H5FEED_GUARDED_BY(mutex_);
};

// Sleeps in every read; fails those of one offset.
class SlowFailingSource final : public ByteSource {
 public:
  SlowFailingSource(std::shared_ptr<const ByteSource> source, std::uint64_t bad_offset)
      : source_(std::move(source)), bad_offset_(bad_offset) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (offset == bad_offset_) throw FileError("sample.h5: reading failed: Input/output error");
    source_->read(offset, out);
  }
  std::uint64_t size() const noexcept override { return source_->size(); }

 private:
  const std::shared_ptr<const ByteSource> source_;
  const std::uint64_t bad_offset_;
};

TEST(ReadAhead, decodes_every_chunk_once_and_delivers_what_the_file_holds) {
  const SampleSet set({.shape = {2000, 16, 16}, .chunk_shape = {10, 16, 16}, .gzip = 1});
  std::shared_ptr<const GatheringSource> slow;
  const Dataset dataset = DatasetAccess::open({.files = {set.path()}, .data = "images"}, [&](auto source) {
    return slow = std::make_shared<GatheringSource>(source, 1, std::chrono::seconds(0));
  });
  DataLoader loader(dataset,
                    {.batch_size = 50, .shuffle = "chunk:8", .seed = 3, .num_workers = 2, .io_depth = 4});
  EXPECT_EQ(loader.options().io_depth, 4);
  std::uint64_t samples = 0;
  while (const auto batch = loader.next()) {
    expect_stored(set, *batch);
    samples += static_cast<std::uint64_t>(batch->size());
  }
  EXPECT_EQ(samples, set.samples());
  // All chunks stay in the cache, for the next round too. A worker that looks ahead may meet a chunk that
  // a reader thread has just begun to fetch: it is then read twice, but decoded once.
  EXPECT_EQ(loader.stats().bytes_decoded, set.samples() * set.sample_bytes());
  EXPECT_EQ(slow->reads().size(), 200u);
  for (const auto& [offset, reads] : slow->reads()) EXPECT_LE(reads, 2) << offset;
}

TEST(ReadAhead, reads_in_parallel_beside_the_workers) {
  const SampleSet set({.shape = {4000, 16, 16}, .chunk_shape = {10, 16, 16}, .gzip = 1});
  std::shared_ptr<const GatheringSource> slow;
  const Dataset dataset = DatasetAccess::open({.files = {set.path()}, .data = "images"}, [&](auto source) {
    return slow = std::make_shared<GatheringSource>(source, 4, std::chrono::seconds(1));
  });
  DataLoader loader(dataset, {.batch_size = 100, .num_workers = 2, .io_depth = 4, .cache_bytes = 1 << 16});
  while (loader.next()) {
  }
  EXPECT_GE(slow->most_at_once(), 4) << "two workers alone would never be four in a read";
}

TEST(ReadAhead, reads_blocks_of_sparse_rows_in_parallel_beside_the_workers) {
  SparseRowsSet set{.columns = 20'000};
  for (std::int64_t row = 0; row < 300; ++row) {
    for (std::int32_t column = 0; column < set.columns; ++column) {
      set.indices.push_back(column);
      set.values.push_back(static_cast<float>(row + column % 7));
    }
    set.indptr.push_back(static_cast<std::int64_t>(set.values.size()));
  }
  const TempDir folder;
  SparseFile(folder / "cells.h5ad").matrix("X", set, 600'000);  // 10 blocks of one chunk
  // Values, columns and the table of rows have a source each; the values are opened first.
  std::vector<std::shared_ptr<const GatheringSource>> slow;
  const Dataset dataset =
      DatasetAccess::open({.files = {folder / "cells.h5ad"}, .data = "X"}, [&](auto source) {
        return slow.emplace_back(
            std::make_shared<GatheringSource>(source, slow.empty() ? 4 : 1, std::chrono::seconds(1)));
      });
  DataLoader loader(
      dataset,
      {.batch_size = 25, .num_workers = 2, .prefetch_factor = 4, .io_depth = 4, .cache_bytes = 1 << 16});
  std::size_t at = 0;
  while (const auto batch = loader.next()) {
    const auto values = batch->sparse.values.as<float>();
    ASSERT_LE(at + values.size(), set.values.size());
    EXPECT_TRUE(std::ranges::equal(values, std::span(set.values).subspan(at, values.size())));
    at += values.size();
  }
  EXPECT_EQ(at, set.values.size());
  EXPECT_GE(slow.front()->most_at_once(), 4) << "two workers alone would never be four in a read";
}

TEST(ReadAhead, delivers_an_error_to_the_batches_of_that_chunk_only) {
  const SampleSet set({.shape = {1000, 16, 16}, .chunk_shape = {10, 16, 16}, .gzip = 1});
  const auto offsets = [&] {
    std::shared_ptr<const GatheringSource> counting;
    const Dataset dataset = DatasetAccess::open({.files = {set.path()}, .data = "images"}, [&](auto source) {
      return counting = std::make_shared<GatheringSource>(source, 1, std::chrono::seconds(0));
    });
    DataLoader loader(dataset, {.batch_size = 1000});
    loader.next();
    return counting->reads();
  }();
  ASSERT_EQ(offsets.size(), 100u);
  const std::uint64_t bad_offset = std::next(offsets.begin(), 70)->first;
  const Dataset dataset = DatasetAccess::open({.files = {set.path()}, .data = "images"}, [&](auto source) {
    return std::make_shared<SlowFailingSource>(source, bad_offset);
  });
  DataLoader loader(dataset, {.batch_size = 20, .num_workers = 3, .io_depth = 6});
  int errors = 0;
  int batches = 0;
  while (true) {
    try {
      if (!loader.next()) break;
      ++batches;
    } catch (const FileError& error) {
      ++errors;
      EXPECT_THAT(error.what(), testing::HasSubstr("images")) << "names the dataset";
    }
  }
  EXPECT_EQ(errors, 1);
  EXPECT_EQ(batches, 49);
}

// Makes a loader over a slow source and destroys it after 0, 1, … batches.
void end_at_any_moment(const test::SampleSetSpec& spec) {
  const SampleSet set(spec);
  for (int batches = 0; batches < 12; ++batches) {
    const Dataset dataset = DatasetAccess::open({.files = {set.path()}, .data = "images"}, [&](auto source) {
      return std::make_shared<GatheringSource>(source, 1, std::chrono::seconds(0));
    });
    DataLoader loader(
        dataset, {.batch_size = 30, .shuffle = "chunk:4", .num_workers = 2, .row_reads = RowReads::never});
    for (int i = 0; i < batches; ++i) EXPECT_EQ(loader.next().value().size(), 30);
    if (batches % 3 == 0) loader.start_epoch();
  }
}

TEST(ReadAhead, ends_cleanly_at_any_moment) {
  end_at_any_moment({.shape = {400, 16, 16}, .chunk_shape = {10, 16, 16}, .gzip = 1});
}

// Reader threads load such chunks themselves and copy their rows.
TEST(ReadAhead, of_chunks_without_filters_ends_cleanly_at_any_moment) {
  end_at_any_moment({.shape = {400, 16, 16}, .chunk_shape = {10, 16, 16}});
}

// One batch is taken, then the consumer waits: two more chunks of 1000 samples are loaded meanwhile, no
// batch of which is in preparation.
TEST(LookAhead, loads_large_chunks_while_the_consumer_is_busy) {
  const SampleSet set({.shape = {8000, 8, 8}, .chunk_shape = {1000, 8, 8}, .gzip = 1});
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images"});
  DataLoader loader(dataset, {.batch_size = 10, .num_workers = 2});
  loader.next();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (loader.stats().bytes_decoded < 3 * 1000 * 64 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_GE(loader.stats().bytes_decoded, 3u * 1000 * 64);
  std::uint64_t samples = 10;
  while (const auto batch = loader.next()) samples += static_cast<std::uint64_t>(batch->size());
  EXPECT_EQ(samples, 8000u);
  EXPECT_EQ(loader.stats().bytes_decoded, 8u * 1000 * 64) << "each chunk once";
}

// Reads that begin after the destructor did: those that threads were about to begin, not the queue's. One of
// several attempts suffices: this thread may be suspended between the count and the destructor.
TEST(DataLoaderEnd, does_not_work_through_what_is_queued) {
  const SampleSet set({.shape = {2000, 8, 8}, .chunk_shape = {2, 8, 8}, .gzip = 1});
  std::shared_ptr<const GatheringSource> slow;
  const Dataset dataset = DatasetAccess::open({.files = {set.path()}, .data = "images"}, [&](auto source) {
    return slow = std::make_shared<GatheringSource>(source, 1, std::chrono::seconds(0));
  });
  const auto reads = [&] {
    std::size_t total = 0;
    for (const auto& [offset, count] : slow->reads()) total += static_cast<std::size_t>(count);
    return total;
  };
  std::size_t fewest = 1000;
  for (int attempt = 0; attempt < 20 && fewest > 100; ++attempt) {
    std::size_t before = 0;
    {
      DataLoader loader(dataset, {.batch_size = 400, .num_workers = 2, .io_depth = 0});
      loader.next();
      before = reads();
    }
    fewest = std::min(fewest, reads() - before);
  }
  // Of 2000 / 2 chunks some 600 were queued.
  EXPECT_LE(fewest, 100u);
}

TEST(ReadAhead, needs_no_thread_for_a_file_in_memory) {
  const SampleSet set({.shape = {400, 16, 16}, .chunk_shape = {10, 16, 16}, .gzip = 1});
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images"});
  EXPECT_THROW(DataLoader(dataset, {.batch_size = 30, .io_depth = 1}), OptionError) << "without workers";
  EXPECT_THROW(DataLoader(dataset, {.batch_size = 30, .num_workers = 1, .io_depth = -1}), OptionError);
  const DataLoader none(dataset, {.batch_size = 30, .num_workers = 2, .io_depth = 0});
  EXPECT_EQ(none.options().io_depth, 0);
  const DataLoader by_default(dataset, {.batch_size = 30, .num_workers = 3});
  EXPECT_EQ(by_default.options().io_depth, 6);
}

}  // namespace
}  // namespace h5feed::test
