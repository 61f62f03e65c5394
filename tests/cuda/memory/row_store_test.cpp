// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/row_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/runtime/handles.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/gpu/device_batches.hpp"
#include "support/gpu/gpu_deliveries.hpp"

namespace h5feed::test {
namespace {

using gpu::MemoryLedger;
using gpu::RowStore;
using testing::ElementsAre;

constexpr std::uint64_t kReserve = (std::uint64_t{1} << 20) / 16;

// A store on a GPU of 1 MiB, and batches in device memory to keep: every byte of a sample is its number.
class RowStores : public testing::Test {
 protected:
  RowStore& make(std::size_t row_bytes, GpuCacheBytes size) {
    row_bytes_ = row_bytes;
    store_ = std::make_unique<RowStore>(RowStore::Settings{.row_bytes = row_bytes, .size = size}, ledger_);
    return *store_;
  }

  void keep(const std::vector<std::int64_t>& samples) {
    const gpu::DeviceGuard guard(0);
    batches_.emplace_back(samples.size() * row_bytes_, 0);
    auto* const rows = static_cast<std::byte*>(batches_.back().get());
    for (std::size_t i = 0; i < samples.size(); ++i)
      std::fill_n(rows + i * row_bytes_, row_bytes_, static_cast<std::byte>(samples[i]));
    store_->keep(samples, rows, stream_.get(), {});
  }

  // Returns the first and last byte of each kept row; −1 where there is none.
  std::vector<int> found(const std::vector<std::int64_t>& samples) {
    stream_.wait();
    std::vector<int> bytes;
    const auto rows = store_->find(samples);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const bool kept = rows && (*rows)[i];
      EXPECT_EQ(store_->holds(samples[i]), kept);
      bytes.push_back(kept ? static_cast<int>((*rows)[i].get()[0]) : -1);
      if (kept) {
        EXPECT_EQ((*rows)[i].get()[row_bytes_ - 1], (*rows)[i].get()[0]);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*rows)[i].get()) % 16, 0u);
      }
    }
    return bytes;
  }

  void deliver(int batches) {
    const gpu::DeviceGuard guard(0);
    for (int i = 0; i < batches; ++i) store_->delivered(0);
  }

  FakeCuda cuda_{{.memory_bytes = std::size_t{1} << 20}};
  const std::shared_ptr<MemoryLedger> ledger_ = std::make_shared<MemoryLedger>();
  TestStream stream_;
  std::size_t row_bytes_ = 0;
  std::vector<GpuBuffer> batches_;
  std::unique_ptr<RowStore> store_;
};

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
  make(32, 1 << 16);
  const std::uint64_t before = cuda_.calls_of("cudaMemcpyAsync");
  keep({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(cuda_.calls_of("cudaMemcpyAsync") - before, 1u);
  keep({10, 1, 11, 12});
  EXPECT_EQ(cuda_.calls_of("cudaMemcpyAsync") - before, 3u) << "10, then 11 and 12";
  EXPECT_THAT(found({6, 10, 11, 12}), ElementsAre(6, 10, 11, 12));
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

TEST_F(RowStores, give_blocks_back_that_are_freed_after_their_last_reader) {
  RowStore& store = make(256, 8 * 256);
  keep({0, 1, 2, 3});
  stream_.wait();
  auto rows = store.find(std::vector<std::int64_t>{3});
  EXPECT_TRUE(store.give_back());
  EXPECT_TRUE(store.give_back());
  EXPECT_EQ(store.bytes(), 2u * 256);
  EXPECT_EQ(ledger_->bytes(), 3u * 256);
  EXPECT_EQ((*rows)[0].get()[0], std::byte{3});
  rows.reset();
  EXPECT_EQ(ledger_->bytes(), 2u * 256);
  keep({4});
  EXPECT_THAT(found({0, 1, 2, 3, 4}), ElementsAre(0, 1, -1, -1, -1)) << "and do not grow again";
  EXPECT_TRUE(store.give_back());
  EXPECT_TRUE(store.give_back());
  EXPECT_FALSE(store.give_back());
  EXPECT_EQ(ledger_->bytes(), 0u);
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

}  // namespace
}  // namespace h5feed::test
