// SPDX-License-Identifier: Apache-2.0
// Contents of a RowStore, its memory, and the release of memory.
#include "cuda/memory/row_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "support/gpu/row_stores.hpp"

namespace h5feed::test {
namespace {

using gpu::RowStore;
using testing::ElementsAre;

TEST_F(RowStores, keep_the_first_samples_that_fit) {
  for (const std::size_t row_bytes : {1u, 15u, 256u}) {
    RowStore& store = make(row_bytes, 4 * 256);
    EXPECT_EQ(store.find(std::vector<std::int64_t>{1, 2}), nullptr);
    keep({7, 3, 7});
    keep({3, 9});
    EXPECT_THAT(found({3, 5, 7, 9}), ElementsAre(3, -1, 7, 9)) << row_bytes;
    EXPECT_LE(store.bytes(), 4u * 256);
    EXPECT_EQ(store.bytes(), ledger_->bytes());
  }
  keep({1, 2, 4});
  EXPECT_THAT(found({1, 2, 4}), ElementsAre(1, -1, -1)) << "four rows in all";
  EXPECT_EQ(store_->bytes(), 4u * 256);
  store_.reset();
  EXPECT_EQ(ledger_->bytes(), 0u);
}

TEST_F(RowStores, copy_neighbours_at_once) {
  for (const std::size_t row_bytes : {32u, 20u}) {
    make(row_bytes, 1 << 16);
    const auto copies = [&] {
      return cuda_.calls_of("cudaMemcpyAsync") + cuda_.calls_of("cudaMemcpy2DAsync");
    };
    const std::uint64_t before = copies();
    keep({1, 2, 3, 4, 5, 6});
    EXPECT_EQ(copies() - before, 1u) << row_bytes;
    keep({10, 1, 11, 12});
    EXPECT_EQ(copies() - before, 3u) << "10, then 11 and 12";
    EXPECT_THAT(found({6, 10, 11, 12}), ElementsAre(6, 10, 11, 12));
  }
}

TEST_F(RowStores, of_no_size_or_less_than_a_row_keep_nothing) {
  for (const std::uint64_t bytes : {0u, 255u}) {
    make(200, bytes);
    keep({1});
    EXPECT_THAT(found({1}), ElementsAre(-1));
    EXPECT_EQ(store_->bytes(), 0u);
  }
}

TEST_F(RowStores, leave_a_sixteenth_of_the_memory_free) {
  make(1024, std::uint64_t{1} << 30);
  std::vector<std::int64_t> samples(100);
  for (int batch = 0; batch < 12; ++batch) {
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<std::int64_t>(i) + 100 * batch;
    keep(samples);
    stream_.wait();
    batches_.clear();
  }
  EXPECT_EQ(store_->bytes(), 0u) << "not even one block of 128 MiB";
  make(1024, 960 * 1024);
  for (int batch = 0; batch < 12; ++batch) {
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<std::int64_t>(i) + 100 * batch;
    keep(samples);
    stream_.wait();
    batches_.clear();
  }
  const std::uint64_t block = 120 * 1024;
  EXPECT_EQ(store_->bytes() % block, 0u);
  EXPECT_GE(store_->bytes(), 6 * block);
  EXPECT_LE(store_->bytes(), (std::uint64_t{1} << 20) - kReserve);
}

TEST_F(RowStores, with_size_auto_begin_after_the_first_batches) {
  make(1024, "auto");
  keep({1});
  deliver(15);
  keep({2});
  EXPECT_THAT(found({1, 2}), ElementsAre(-1, -1));
  deliver(1);
  keep({3});
  EXPECT_THAT(found({1, 2, 3}), ElementsAre(-1, -1, 3));
}

TEST_F(RowStores, go_on_where_memory_cannot_be_allocated) {
  make(256, 8 * 256);
  keep({1, 2});
  cuda_.fail_call_of("cudaMalloc", 2, cudaErrorMemoryAllocation);  // the batch is the first
  keep({3, 4, 5});
  EXPECT_TRUE(cuda_.failed());
  keep({6});
  EXPECT_THAT(found({1, 2, 3, 6}), ElementsAre(1, 2, -1, -1));
}

TEST_F(RowStores, free_blocks_and_save_the_rows_that_planned_batches_need) {
  RowStore& store = make(256, 8 * 256);
  keep({0, 1, 2, 3});
  const auto planned = store.find(std::vector<std::int64_t>{3, 1});
  EXPECT_TRUE(store.give_back());
  EXPECT_EQ(ledger_->bytes(), 3u * 256);
  EXPECT_EQ(store.bytes(), 3u * 256);
  EXPECT_EQ((*planned)[0].enter().on_device, nullptr);
  EXPECT_EQ((*planned)[0].enter().saved[0], std::byte{3});
  EXPECT_EQ((*planned)[0].enter().saved[255], std::byte{3});
  EXPECT_EQ((*planned)[1].enter().on_device[0], std::byte{1});
  keep({4});
  EXPECT_THAT(found({0, 1, 2, 3, 4}), ElementsAre(0, 1, 2, -1, -1)) << "and do not grow again";
}

TEST_F(RowStores, free_older_blocks_where_a_copied_batch_reads_the_newest) {
  RowStore& store = make(256, 8 * 256);
  keep({0, 1, 2, 3});
  auto copied = store.find(std::vector<std::int64_t>{3, 0});
  for (gpu::KeptRow& row : *copied) row.enter();
  EXPECT_TRUE(store.give_back());
  EXPECT_TRUE(store.give_back());
  EXPECT_EQ(ledger_->bytes(), 2u * 256);
  EXPECT_THAT(found({0, 1, 2, 3}), ElementsAre(0, -1, -1, 3));
  EXPECT_FALSE(store.give_back()) << "nothing is free now";
  EXPECT_EQ(ledger_->bytes(), 2u * 256);
  EXPECT_THAT(found({0, 3}), ElementsAre(0, -1)) << "but will be";
  EXPECT_EQ((*copied)[0].enter().on_device[0], std::byte{3});
  copied.reset();
  EXPECT_EQ(ledger_->bytes(), 256u);
  EXPECT_TRUE(store.give_back());
  EXPECT_FALSE(store.give_back());
  EXPECT_EQ(ledger_->bytes(), 0u);
}

TEST_F(RowStores, take_no_more_than_all_samples_need) {
  const RowStore::Settings settings{
      .row_bytes = 200, .samples = 5, .copies = stream_.get(), .size = std::uint64_t{1} << 19};
  row_bytes_ = 200;
  store_ = std::make_unique<RowStore>(settings, ledger_);
  keep({0, 1, 2, 3, 4});
  EXPECT_THAT(found({0, 1, 2, 3, 4}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_LE(store_->bytes(), 5u * 256);
}

TEST_F(RowStores, give_back_what_the_model_lacks) {
  make(1024, 512 * 1024);
  std::vector<std::int64_t> samples(250);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<std::int64_t>(i);
  keep(samples);
  stream_.wait();
  batches_.clear();
  const std::uint64_t before = store_->bytes();
  ASSERT_EQ(before, 4u * 64 * 1024);
  const std::uint64_t free = (std::uint64_t{1} << 20) - before;
  {
    const GpuBuffer model(free - kReserve / 2, 0);
    deliver(16);
    EXPECT_EQ(store_->bytes(), before) << "half the reserve is left";
  }
  const GpuBuffer model(free - kReserve / 2 + 256, 0);
  deliver(15);
  EXPECT_EQ(store_->bytes(), before) << "not with every batch";
  deliver(1);
  EXPECT_EQ(store_->bytes(), before - 64 * 1024);
  EXPECT_THAT(found({191, 192}), ElementsAre(191, -1));
}

TEST_F(RowStores, release_rows_of_a_block_that_is_still_filling) {
  RowStore& store = make(16, std::uint64_t{1} << 18);
  keep({0});
  std::thread batches([&] {
    for (int i = 0; i < 2000; ++i) store.find(std::vector<std::int64_t>{0});
  });
  for (std::int64_t first = 1; first < 2000; first += 20) {
    std::vector<std::int64_t> samples(20);
    std::iota(samples.begin(), samples.end(), first);
    keep(samples);
  }
  batches.join();
  EXPECT_THAT(found({0}), ElementsAre(0));
}

TEST_F(RowStores, count_blocks_that_will_be_freed_when_they_are_asked_again) {
  RowStore& store = make(1024, 512 * 1024);
  std::vector<std::int64_t> samples(250);
  std::iota(samples.begin(), samples.end(), 0);
  keep(samples);
  stream_.wait();
  batches_.clear();
  auto copied = store.find(samples);
  for (gpu::KeptRow& row : *copied) row.enter();
  const std::uint64_t before = store.bytes();
  const GpuBuffer model((std::size_t{1} << 20) - before - kReserve / 2 + 256, 0);
  for (int i = 0; i < 8; ++i) store.keep_memory_free();
  EXPECT_EQ(store.bytes(), before - 64 * 1024) << "one block suffices";
  copied.reset();
  EXPECT_EQ(ledger_->bytes(), store.bytes());
}

}  // namespace
}  // namespace h5feed::test
