// SPDX-License-Identifier: Apache-2.0
// Replacement of samples in a full RowStore, and the events that streams wait for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <future>
#include <random>
#include <string>
#include <vector>

#include "support/gpu/row_stores.hpp"

namespace h5feed::test {
namespace {

using gpu::RowStore;
using testing::ElementsAre;

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
  for (const std::string call : {"cudaMemcpyAsync", "cudaStreamWaitEvent"}) {
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
    EXPECT_EQ(cuda_.stream_waits() - waits, call == "cudaMemcpyAsync" ? 0u : 1u) << "the wait is made up for";
    EXPECT_EQ(store.bytes(), 2u * 256);
  }
}

TEST_F(RowStores, wait_for_kernels_only_where_rows_are_replaced) {
  RowStore& store = make_foreseeing(3, {1, 2, 3, 4, 5, 6, 4, 5, 1, 6});
  const TestStream first, second;
  const gpu::DeviceGuard guard(0);
  std::promise<void> done;  // of the kernels: a stream whose kernels are done is not waited for
  const std::shared_future<void> waits = done.get_future().share();
  for (const TestStream* stream : {&first, &second}) cuda_.enqueue(stream->get(), [waits] { waits.wait(); });
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
  done.set_value();
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
