// SPDX-License-Identifier: Apache-2.0
// Stopping at any moment: nothing hangs, nothing is lost, buffers outlive the loader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "support/captured_log.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"
#include "support/loaders/stored_samples.hpp"

namespace h5feed::test {
namespace {

class Shutdown : public testing::Test {
 protected:
  Dataset open() const { return test::open(set_); }

  test::CapturedLog log_;
  SampleSet set_{{.shape = {400, 16, 16}, .chunk_shape = {10, 16, 16}, .gzip = 4}};
};

TEST_F(Shutdown, destruction_is_clean_after_any_number_of_batches) {
  for (const std::int64_t workers : {std::int64_t{0}, std::int64_t{1}, std::int64_t{4}, kAuto}) {
    for (int taken = 0; taken <= 30; ++taken) {
      std::optional<Batch> last;
      {
        DataLoader loader(open(), {.batch_size = 16, .shuffle = "full", .num_workers = workers});
        ASSERT_EQ(loader.size(), 25u);
        for (int i = 0; i < taken; ++i) {
          last = loader.next();
          ASSERT_EQ(last.has_value(), i != 25) << "the call behind the last batch ends the epoch";
        }
      }
      if (last) expect_stored(set_, *last);
    }
  }
}

TEST_F(Shutdown, a_break_in_mid_epoch_leaves_a_loader_that_works) {
  DataLoader loader(open(), {.batch_size = 16, .shuffle = "chunk:4", .seed = 1, .num_workers = 3});
  for (std::size_t stop_at = 1; stop_at <= loader.size(); ++stop_at) {
    std::size_t seen = 0;
    for (const Batch& batch : loader) {
      ASSERT_EQ(batch.epoch, stop_at - 1) << "an abandoned epoch counts";
      ASSERT_EQ(batch.number, seen);
      expect_stored(set_, batch);
      if (++seen == stop_at) break;
    }
  }
  std::size_t whole = 0;
  for (const Batch& batch : loader) whole += batch.indices.size();
  EXPECT_EQ(whole, 400u);
}

TEST_F(Shutdown, batches_that_are_kept_outlive_the_loader) {
  std::vector<Batch> kept;
  std::uint64_t allocated = 0;
  {
    DataLoader loader(open(), {.batch_size = 16, .shuffle = "full", .num_workers = 2});
    for (Batch& batch : loader) kept.push_back(std::move(batch));
    EXPECT_THAT(log_.warnings(), testing::ElementsAre(testing::StartsWith("the consumer keeps batches")));
    allocated = loader.stats().outputs_allocated;
    EXPECT_GE(loader.stats().outputs_held_bytes, 400 * set_.sample_bytes());
  }
  ASSERT_EQ(kept.size(), 25u);
  EXPECT_GE(allocated, 25u);
  for (const Batch& batch : kept) expect_stored(set_, batch);
}

TEST_F(Shutdown, batches_that_are_let_go_are_recycled) {
  DataLoader loader(open(), {.batch_size = 16, .shuffle = "full", .num_workers = 2});
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (const Batch& batch : loader) ASSERT_TRUE(batch.data.defined());
  }
  // Prefetched ones, the consumer's, and what abandoned tasks held for a moment.
  EXPECT_LE(loader.stats().outputs_allocated, loader.options().prefetch_batches + 4);
}

TEST_F(Shutdown, restarting_at_once_and_often_is_harmless) {
  DataLoader loader(open(), {.batch_size = 8, .shuffle = "full", .num_workers = 4});
  for (std::uint64_t i = 0; i < 200; ++i) {
    loader.set_epoch(i % 7);
    loader.start_epoch();
    if (i % 3 == 0) {
      const std::optional<Batch> batch = loader.next();
      ASSERT_TRUE(batch);
      ASSERT_EQ(batch->epoch, i % 7);
      expect_stored(set_, *batch);
    }
  }
}

// Destroyed after main() returned, with workers in the middle of their tasks.
std::unique_ptr<DataLoader> loader_in_static_storage;  // NOLINT

TEST_F(Shutdown, a_loader_may_live_in_static_storage) {
  loader_in_static_storage = std::make_unique<DataLoader>(
      open(), DataLoaderOptions{.batch_size = 4, .shuffle = "full", .num_workers = 2, .cache_bytes = 0});
  ASSERT_TRUE(loader_in_static_storage->next());
}

}  // namespace
}  // namespace h5feed::test
