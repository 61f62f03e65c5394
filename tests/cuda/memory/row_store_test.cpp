// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/row_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cuda/runtime/handles.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/gpu/device_batches.hpp"
#include "support/gpu/gpu_deliveries.hpp"
#include "support/gpu/known_order.hpp"

namespace h5feed::test {
namespace {

using gpu::MemoryLedger;
using gpu::RowStore;
using testing::ElementsAre;

constexpr std::uint64_t kManySamples = 1 << 20;
constexpr std::uint64_t kReserve = (std::uint64_t{1} << 20) / 16;

// A store on a GPU of 1 MiB, and batches in device memory to keep: every byte of a sample is its number.
class RowStores : public testing::Test {
 protected:
  RowStore& make(std::size_t row_bytes, GpuCacheBytes size, Foresee foresee = {}) {
    row_bytes_ = row_bytes;
    const RowStore::Settings settings{.row_bytes = row_bytes,
                                      .samples = kManySamples,
                                      .copies = stream_.get(),
                                      .size = size,
                                      .foresee = std::move(foresee)};
    store_ = std::make_unique<RowStore>(settings, ledger_);
    return *store_;
  }

  // A store with room for so many samples, which come in `order_`.
  RowStore& make_foreseeing(std::uint64_t rows, std::vector<std::int64_t> samples) {
    order_.samples = std::move(samples);
    order_.past = 0;
    order_.end.reset();
    return make(256, rows * 256, order_.foresee());
  }

  // Serves and keeps the next `count` samples of `order_`, as their batch; returns how many were served.
  std::size_t keep_next(std::uint64_t count) {
    std::vector<std::int64_t> copied, served;
    for (; count > 0; --count, ++order_.past) {
      const std::int64_t sample = order_.samples[order_.past];
      (store_->holds(sample) ? served : copied).push_back(sample);
    }
    keep(copied, served, order_.past);
    return served.size();
  }

  void keep(const std::vector<std::int64_t>& samples, const std::vector<std::int64_t>& served = {},
            std::uint64_t end_turn = 0) {
    const gpu::DeviceGuard guard(0);
    batches_.emplace_back(samples.size() * row_bytes_, 0);
    auto* const rows = static_cast<std::byte*>(batches_.back().get());
    for (std::size_t i = 0; i < samples.size(); ++i)
      std::fill_n(rows + i * row_bytes_, row_bytes_, static_cast<std::byte>(samples[i]));
    store_->keep(samples, served, end_turn, rows, {});
  }

  // Returns the first and last byte of each kept row; −1 where there is none.
  std::vector<int> found(const std::vector<std::int64_t>& samples) {
    stream_.wait();
    std::vector<int> bytes;
    const auto rows = store_->find(samples);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const bool kept = rows && (*rows)[i];
      EXPECT_EQ(store_->holds(samples[i]), kept);
      const std::byte* const row = kept ? (*rows)[i].enter().on_device : nullptr;
      bytes.push_back(kept ? static_cast<int>(row[0]) : -1);
      if (kept) {
        EXPECT_EQ(row[row_bytes_ - 1], row[0]);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(row) % 16, 0u);
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
  KnownOrder order_;
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
  const std::uint64_t before = cuda_.calls_of("cudaMemcpy2DAsync");
  keep({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(cuda_.calls_of("cudaMemcpy2DAsync") - before, 1u);
  keep({10, 1, 11, 12});
  EXPECT_EQ(cuda_.calls_of("cudaMemcpy2DAsync") - before, 3u) << "10, then 11 and 12";
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

TEST_F(RowStores, replace_a_sample_that_does_not_come_again_by_one_that_does) {
  make_foreseeing(3, {1, 2, 3, 4, 5, 1, 4, 5, 2, 4});
  order_.end = 8;
  keep_next(3);
  EXPECT_THAT(found({1, 2, 3}), ElementsAre(1, 2, 3)) << "there is room";
  keep_next(2);
  EXPECT_THAT(found({1, 2, 3, 4, 5}), ElementsAre(1, -1, -1, 4, 5)) << "2 and 3 are not due";
  EXPECT_EQ(keep_next(3), 3u);
  EXPECT_THAT(found({1, 4, 5}), ElementsAre(1, 4, 5)) << "all are served";
  order_.end = 10;
  keep_next(1);
  EXPECT_THAT(found({1, 2, 4, 5}), ElementsAre(1, -1, 4, 5)) << "2 is not due either";
  EXPECT_EQ(keep_next(1), 1u);
}

TEST_F(RowStores, never_replace_a_sample_that_comes_again) {
  make_foreseeing(2, {1, 2, 3, 4, 4, 3, 2, 1, 3, 4, 1, 2});
  keep_next(2);
  keep_next(2);
  EXPECT_THAT(found({1, 2, 3, 4}), ElementsAre(1, 2, -1, -1)) << "in whatever order they come";
  EXPECT_EQ(keep_next(4), 2u);
  EXPECT_EQ(keep_next(4), 2u);
}

TEST_F(RowStores, give_the_rows_to_the_samples_of_a_batch_that_come_again) {
  const RowStore& store = make_foreseeing(2, {1, 2, 3, 4, 4, 2});
  keep_next(4);
  EXPECT_THAT(found({1, 2, 3, 4}), ElementsAre(-1, 2, -1, 4));
  EXPECT_EQ(store.bytes(), 2u * 256);
}

TEST_F(RowStores, replace_a_sample_once_it_was_served_for_the_last_time) {
  make_foreseeing(2, {1, 2, 1, 3, 3, 2});
  keep_next(2);
  EXPECT_EQ(keep_next(2), 1u);
  EXPECT_THAT(found({1, 2, 3}), ElementsAre(-1, 2, 3));
  EXPECT_EQ(keep_next(2), 2u);
}

TEST_F(RowStores, learn_with_every_epoch_what_comes_again_after_all) {
  make_foreseeing(2, {1, 2, 3, 4, 2, 3});
  order_.end = 4;
  keep_next(2);
  EXPECT_THAT(found({1, 2}), ElementsAre(1, 2)) << "neither is due";
  order_.end = 6;
  keep_next(1);
  EXPECT_THAT(found({1, 2, 3}), ElementsAre(-1, 2, 3)) << "2 is due now";
}

TEST_F(RowStores, replace_no_row_that_a_batch_has_still_to_read) {
  RowStore& store = make_foreseeing(2, {1, 2, 3, 4, 3, 4});
  keep_next(2);
  auto rows = store.find(std::vector<std::int64_t>{1, 5});
  auto again = store.find(std::vector<std::int64_t>{1});
  keep_next(2);
  EXPECT_THAT(found({1, 2, 3, 4}), ElementsAre(1, -1, 3, -1));
  EXPECT_EQ((*rows)[0].enter().on_device[0], std::byte{1});
  EXPECT_FALSE((*rows)[1]);
  rows.reset();
  keep({4}, {}, 4);
  EXPECT_THAT(found({1, 4}), ElementsAre(1, -1)) << "there is another reader";
  again.reset();
  keep({4}, {}, 4);
  EXPECT_THAT(found({1, 3, 4}), ElementsAre(-1, 3, 4));
}

TEST_F(RowStores, replace_samples_in_the_blocks_that_are_left) {
  RowStore& store = make_foreseeing(3, {1, 2, 3, 4, 4, 2});
  keep_next(3);
  auto rows = store.find(std::vector<std::int64_t>{1, 2, 3});
  EXPECT_TRUE(store.give_back());
  keep_next(1);
  EXPECT_THAT(found({1, 2, 3, 4}), ElementsAre(1, 2, -1, -1)) << "all rows are being read";
  rows.reset();
  keep({4}, {}, 4);
  EXPECT_THAT(found({1, 2, 4}), ElementsAre(-1, 2, 4));
  EXPECT_TRUE(store.give_back());
  EXPECT_TRUE(store.give_back());
  EXPECT_THAT(found({1, 2, 4}), ElementsAre(-1, -1, -1));
  EXPECT_EQ(ledger_->bytes(), 0u);
}

TEST_F(RowStores, use_a_row_again_whose_copy_failed) {
  for (const std::string call : {"cudaMemcpy2DAsync", "cudaStreamWaitEvent"}) {
    RowStore& store = make_foreseeing(2, {1, 2, 3, 4, 3, 4});
    keep_next(2);
    const TestStream kernels;
    const gpu::DeviceGuard guard(0);
    store.read_on(kernels.get(), {});
    cuda_.fail_call_of(call, 1, cudaErrorLaunchOutOfResources);
    EXPECT_THROW(keep_next(2), gpu::CudaError);
    EXPECT_TRUE(cuda_.failed());
    EXPECT_THAT(found({1, 2, 3, 4}), ElementsAre(-1, -1, -1, -1));
    const std::uint64_t waits = cuda_.stream_waits();
    keep({3}, {}, 4);
    keep({4}, {}, 4);
    EXPECT_THAT(found({3, 4}), ElementsAre(3, 4));
    EXPECT_EQ(cuda_.stream_waits() - waits, call == "cudaMemcpy2DAsync" ? 0u : 1u)
        << "the wait is made up for";
    EXPECT_EQ(store.bytes(), 2u * 256);
  }
}

TEST_F(RowStores, wait_for_kernels_only_where_rows_are_replaced) {
  RowStore& store = make_foreseeing(3, {1, 2, 3, 4, 5, 6, 4, 5, 1, 6});
  const TestStream first, second;
  const gpu::DeviceGuard guard(0);
  store.read_on(first.get(), {});
  keep_next(3);
  EXPECT_EQ(cuda_.stream_waits(), 0u);
  store.read_on(second.get(), {});
  store.read_on(first.get(), {});
  keep_next(1);
  EXPECT_EQ(cuda_.stream_waits(), 2u) << "for each stream once";
  keep_next(1);
  EXPECT_EQ(cuda_.stream_waits(), 2u) << "nothing was read meanwhile";
  store.read_on(second.get(), {});
  keep_next(1);
  EXPECT_EQ(cuda_.stream_waits(), 2u) << "nothing is replaced";
  EXPECT_THAT(found({1, 4, 5, 6}), ElementsAre(1, 4, 5, -1));
}

// Two ranks have a random half each; the store of one sees the running and the next epoch.
TEST_F(RowStores, serve_a_rank_as_many_as_they_have_rows_or_as_come_twice_in_a_row) {
  constexpr std::size_t kEpochs = 12, kHalf = 30, kBatch = 5;
  std::mt19937 random(7);
  for (const std::uint64_t rows : {4u, 8u}) {
    std::vector<std::int64_t> all, samples;
    for (std::int64_t sample = 0; sample < 2 * static_cast<std::int64_t>(kHalf); ++sample)
      all.push_back(sample);
    for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
      std::ranges::shuffle(all, random);
      samples.insert(samples.end(), all.begin(), all.begin() + kHalf);
    }
    make_foreseeing(rows, samples);
    std::size_t served = 0;
    for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
      order_.end = (epoch + 2) * kHalf;
      for (std::size_t batch = 0; batch < kHalf / kBatch; ++batch) {
        served += keep_next(kBatch);
        batches_.clear();
      }
    }
    EXPECT_GE(served, (kEpochs - 1) * rows * 9 / 10) << "the first samples would serve half of that";
    EXPECT_LE(served, (kEpochs - 1) * rows) << "all were held when an epoch began";
    for (const std::int64_t sample : all)
      EXPECT_THAT(found({sample}), ElementsAre(store_->holds(sample) ? static_cast<int>(sample) : -1));
  }
}

}  // namespace
}  // namespace h5feed::test
