// SPDX-License-Identifier: Apache-2.0
// The loader as its user sees it: epochs, options, errors at the right moment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "store/index/chunk_index.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(DataLoader, delivers_batches_with_shape_labels_and_indices) {
  const SampleSet set(gzip_set());
  DataLoader loader(open(set), {.batch_size = 32});
  EXPECT_EQ(loader.size(), 4u);
  const std::optional<Batch> batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_THAT(batch->data.shape, ElementsAre(32, 1, 8, 6));
  EXPECT_THAT(batch->target.shape, ElementsAre(32));
  EXPECT_EQ(batch->data.dtype, DType::u8);
  EXPECT_EQ(batch->target.dtype, DType::i64);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(batch->indices[i], static_cast<std::int64_t>(i));
    EXPECT_EQ(batch->target.as<std::int64_t>()[i], static_cast<std::int64_t>(i % 10));
  }
  EXPECT_THROW(batch->data.as<float>(), std::invalid_argument);
}

TEST(DataLoader, compares_iterators_as_input_iterators) {
  const SampleSet set(gzip_set());
  DataLoader loader(open(set), {.batch_size = 50});
  auto first = loader.begin();
  const auto copy = first;
  EXPECT_EQ(first, copy) << "of the same pass";
  EXPECT_NE(first, loader.end());
  DataLoader other(open(set), {.batch_size = 50});
  EXPECT_NE(first, other.begin());
  ++first;
  ++first;
  EXPECT_EQ(first, loader.end());
  EXPECT_EQ(copy, loader.end()) << "it shares the pass";
}

TEST(DataLoader, ends_an_epoch_once_and_begins_the_next) {
  const SampleSet set(gzip_set());
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(open(set), {.batch_size = 40, .num_workers = workers});
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      for (const std::int64_t size : {40, 40, 20}) {
        const std::optional<Batch> batch = loader.next();
        ASSERT_TRUE(batch);
        EXPECT_EQ(batch->size(), size);
        EXPECT_EQ(batch->epoch, epoch);
      }
      EXPECT_FALSE(loader.next());
    }
  }
}

TEST(DataLoader, delivers_single_samples_without_a_batch_dimension) {
  const SampleSet set(gzip_set());
  DataLoader loader(open(set), {.batch_size = std::nullopt});
  EXPECT_EQ(loader.size(), 100u);
  const std::optional<Batch> sample = loader.next();
  EXPECT_THAT(sample->data.shape, ElementsAre(1, 8, 6));
  EXPECT_TRUE(sample->target.shape.empty());
  EXPECT_EQ(std::memcmp(sample->data.bytes.get(), set.sample(0), set.sample_bytes()), 0);
}

TEST(DataLoader, drops_the_last_batch_only_when_it_is_smaller) {
  const SampleSet set(gzip_set());
  EXPECT_EQ(DataLoader(open(set), {.batch_size = 30, .drop_last = true}).size(), 3u);
  EXPECT_EQ(DataLoader(open(set), {.batch_size = 50, .drop_last = true}).size(), 2u);
  DataLoader none(open(set), {.batch_size = 101, .drop_last = true, .num_workers = 1});
  EXPECT_EQ(none.size(), 0u);
  EXPECT_FALSE(none.next());
  EXPECT_FALSE(none.next());
}

TEST(DataLoader, set_epoch_replays_an_order) {
  const SampleSet set(gzip_set());
  for (const std::int64_t workers : {0, 3}) {
    DataLoader loader(open(set), {.batch_size = 100, .shuffle = "full", .seed = 5, .num_workers = workers});
    std::map<std::uint64_t, std::vector<std::int64_t>> orders;
    for (const std::uint64_t epoch : {0u, 1u, 1u, 0u, 7u, 7u, 1u}) {
      loader.set_epoch(epoch);
      const std::optional<Batch> batch = loader.next();
      EXPECT_EQ(batch->epoch, epoch);
      const auto [at, first_time] = orders.try_emplace(epoch, batch->indices);
      if (!first_time) {
        EXPECT_EQ(at->second, batch->indices);
      }
      EXPECT_FALSE(loader.next());
    }
    EXPECT_NE(orders[0], orders[1]);
    EXPECT_NE(orders[1], orders[7]);
  }
}

TEST(DataLoader, replaying_the_running_epoch_out_of_order_keeps_both_apart) {
  const SampleSet set(gzip_set());
  DataLoader loader(open(set), {.batch_size = 10, .in_order = false, .num_workers = 4});
  for (int i = 0; i < 4; ++i) {
    loader.set_epoch(0);
    std::vector<std::int64_t> seen;
    while (const std::optional<Batch> batch = loader.next()) {
      loader.set_epoch(0);  // the next round repeats this epoch and is prefetched meanwhile
      seen.insert(seen.end(), batch->indices.begin(), batch->indices.end());
    }
    std::ranges::sort(seen);
    ASSERT_EQ(seen.size(), 100u);
    for (std::int64_t s = 0; s < 100; ++s) ASSERT_EQ(seen[static_cast<std::size_t>(s)], s);
  }
}

TEST(DataLoader, iterators_follow_libtorchs_rules) {
  const SampleSet set(gzip_set());
  DataLoader loader(open(set), {.batch_size = 50, .num_workers = 1});
  auto it = loader.begin();
  EXPECT_NE(it, loader.end());
  EXPECT_EQ(it->indices.front(), 0);
  const Batch moved = std::move(*it);
  EXPECT_EQ(moved.size(), 50);
  ++it;
  EXPECT_EQ((*it).indices.front(), 50);
  ++it;
  EXPECT_EQ(it, loader.end());
  EXPECT_THROW(++it, std::out_of_range);
  EXPECT_THROW(*it, std::out_of_range);
}

TEST(DataLoader, an_iterator_lets_go_of_its_batch_when_it_is_incremented) {
  const SampleSet set(gzip_set());
  DataLoader loader(open(set), {.batch_size = 50});
  auto it = loader.begin();
  const std::weak_ptr<std::byte> bytes = it->data.bytes;
  EXPECT_FALSE(bytes.expired());
  ++it;
  EXPECT_TRUE(bytes.expired()) << "before the next one is asked for";
}

TEST(DataLoader, workers_prepare_another_batch_for_each_that_is_taken) {
  const SampleSet set(gzip_set());
  for (const std::int64_t workers : {1, 2}) {
    std::atomic<int> prepared = 0;
    DataLoader loader(open(set), {.batch_size = 1,
                                  .num_workers = workers,
                                  .prefetch_factor = 2,
                                  .transform = [&](const SampleView&, const SampleKey&) { ++prepared; }});
    ASSERT_TRUE(loader.next());
    const int wanted = static_cast<int>(2 * workers) + 1;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (prepared < wanted && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(prepared, wanted);
  }
}

TEST(DataLoader, asks_a_sampler_that_fails_once_ahead_and_once_in_its_epoch) {
  const SampleSet set(gzip_set());
  int asked = 0;
  const auto sampler = make_sampler([&](std::uint64_t epoch) -> std::vector<std::int64_t> {
    if (epoch == 1 && ++asked > 0) throw std::runtime_error("no list");
    return {0, 1, 2, 3, 4, 5};
  });
  DataLoader loader(open(set), {.batch_size = 1, .sampler = sampler, .num_workers = 2});
  while (loader.next()) {
  }
  EXPECT_EQ(asked, 1) << "when the batches of its epoch were to be prepared";
  EXPECT_THROW(loader.next(), std::runtime_error);
  EXPECT_EQ(asked, 2);
}

TEST(DataLoader, decodes_nothing_from_the_second_epoch_on_when_the_data_fits) {
  const SampleSet set(gzip_set());
  for (const std::int64_t workers : {0, 1, 4}) {
    DataLoader loader(open(set),
                      {.batch_size = 16, .shuffle = "full", .num_workers = workers, .cache_bytes = 4800});
    const auto epoch = [&] {
      for (const Batch& batch : loader) ASSERT_TRUE(batch.data.defined());
    };
    epoch();
    const LoaderStats first = loader.stats();
    EXPECT_EQ(first.cache_misses, 10u);
    EXPECT_EQ(first.bytes_decoded, 4800u);
    epoch();
    epoch();
    const LoaderStats third = loader.stats();
    EXPECT_EQ(third.bytes_read, first.bytes_read);
    EXPECT_EQ(third.bytes_decoded, 4800u);
    EXPECT_GT(third.cache_hits, first.cache_hits);
    EXPECT_EQ(third.bytes_delivered, 3 * (4800u + 100u));
  }
}

TEST(DataLoader, decodes_each_chunk_once_in_sequential_and_windowed_order) {
  const SampleSet set(gzip_set());
  for (const char* shuffle : {"sequential", "chunk:3"}) {
    // Room for the window and nothing else.
    DataLoader loader(open(set), {.batch_size = 7, .shuffle = shuffle, .cache_bytes = 3 * 480});
    for (const Batch& batch : loader) ASSERT_TRUE(batch.data.defined());
    EXPECT_EQ(loader.stats().cache_misses, 10u) << shuffle;
    EXPECT_DOUBLE_EQ(loader.stats().read_amplification(), 4800.0 / 4900.0) << shuffle;
  }
}

TEST(DataLoaderTargets, keep_float_types_and_widen_integers) {
  const auto target_dtype = [](DType stored, std::optional<DType> wanted) {
    const SampleSet set({.shape = {10, 8, 6}, .label_dtype = stored, .label_shape = {10, 1}});
    DataLoader loader(open(set), {.batch_size = 10, .target_dtype = wanted});
    const std::optional<Batch> batch = loader.next();
    EXPECT_THAT(batch->target.shape, ElementsAre(10)) << "(N,1) is squeezed";
    return batch->target.dtype;
  };
  EXPECT_EQ(target_dtype(DType::u8, {}), DType::i64);
  EXPECT_EQ(target_dtype(DType::i32, {}), DType::i64);
  EXPECT_EQ(target_dtype(DType::f32, {}), DType::f32);
  EXPECT_EQ(target_dtype(DType::f64, {}), DType::f64);
  EXPECT_EQ(target_dtype(DType::u8, DType::f32), DType::f32);
}

TEST(DataLoaderTargets, of_several_columns_stay) {
  const SampleSet set({.shape = {12, 8, 6}, .label_dtype = DType::f32, .label_shape = {12, 40}});
  DataLoader loader(open(set), {.batch_size = 4});
  const std::optional<Batch> batch = loader.next();
  EXPECT_THAT(batch->target.shape, ElementsAre(4, 40));
  EXPECT_EQ(batch->target.as<float>()[3 * 40 + 39], 3.0F);
}

TEST(DataLoaderTargets, that_do_not_fit_their_type_are_refused) {
  const SampleSet set({.shape = {30, 8, 6}, .label_dtype = DType::i64, .first_label = 250});
  EXPECT_EQ(refusal<OptionError>(open(set), {.target_dtype = DType::u8}),
            set.path().string() +
                ":/labels: the target of sample 6 is 256, which u8 cannot hold; choose a wider target_dtype");
  EXPECT_EQ(refusal<OptionError>(open(set), {.target_dtype = DType::i16}), "accepted");
}

TEST(DataLoaderTargets, may_be_missing) {
  const SampleSet set(gzip_set());
  DataLoader loader(Dataset::open({.files = {set.path()}, .data = "images"}), {.batch_size = 4});
  EXPECT_FALSE(loader.next().value().target.defined());
}

// The address of a chunk in the file, to damage it.
TEST(DataLoaderErrors, arrive_at_the_batch_they_belong_to_and_the_rest_goes_on) {
  const SampleSet set(gzip_set());
  test::damage(set.path(), chunk_offset(set, 3) + 4, 20);
  for (const std::int64_t workers : {0, 1, 2, 4}) {
    DataLoader loader(open(set), {.batch_size = 10, .num_workers = workers, .cache_bytes = 0});
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (std::uint64_t b = 0; b < 10; ++b) {
        if (b == 3) {
          try {
            loader.next();
            FAIL() << "the damaged chunk was delivered";
          } catch (const ChunkError& error) {
            EXPECT_THAT(error.what(),
                        HasSubstr(set.path().string() + ":/images: chunk (3,0,0) (samples 30-39)"));
          }
          continue;
        }
        const std::optional<Batch> batch = loader.next();
        ASSERT_TRUE(batch);
        ASSERT_EQ(batch->number, b);
        ASSERT_EQ(std::memcmp(batch->data.bytes.get(), set.sample(static_cast<std::int64_t>(b) * 10), 480),
                  0);
      }
      EXPECT_FALSE(loader.next());
    }
    EXPECT_EQ(loader.stats().errors, 3u);
  }
}

TEST(DataLoaderErrors, fail_every_batch_with_a_damaged_sample_and_no_other) {
  const SampleSet set(gzip_set());
  test::damage(set.path(), chunk_offset(set, 5) + 4, 20);
  DataLoader loader(open(set), {.batch_size = 10, .shuffle = "full", .seed = 1, .num_workers = 4});
  DataLoader clean_order(open(SampleSet(gzip_set())), {.batch_size = 10, .shuffle = "full", .seed = 1});
  for (const Batch& expected : clean_order) {
    const bool damaged = std::ranges::any_of(expected.indices, [](std::int64_t i) { return i / 10 == 5; });
    if (damaged) {
      EXPECT_THROW(loader.next(), ChunkError);
    } else {
      EXPECT_EQ(loader.next().value().indices, expected.indices);
    }
  }
  EXPECT_FALSE(loader.next());
}

TEST(DataLoaderErrors, a_file_cut_off_after_opening_is_an_error_not_a_crash) {
  const SampleSet set(gzip_set());
  DataLoader loader(open(set), {.batch_size = 100, .num_workers = 2});
  // The loader starts working with the first call.
  std::filesystem::resize_file(set.path(), chunk_offset(set, 8));
  EXPECT_THROW(loader.next(), FileError);
}

TEST(DataLoader, a_moved_from_dataset_stays_usable) {
  const SampleSet set(gzip_set());
  Dataset dataset = open(set);
  const Dataset moved = std::move(dataset);
  EXPECT_EQ(dataset.size(), moved.size());  // NOLINT(bugprone-use-after-move): what is tested
}

TEST(DataLoaderTrace, sees_every_stage_begin_and_end) {
  class Sink : public TraceSink {
   public:
    void begin(Stage stage, std::uint64_t) noexcept override { ++open_[static_cast<std::size_t>(stage)]; }
    void end(Stage stage, std::uint64_t) noexcept override {
      --open_[static_cast<std::size_t>(stage)];
      ++ended_[static_cast<std::size_t>(stage)];
    }
    std::array<std::atomic<int>, 5> open_{}, ended_{};
  };
  const SampleSet set(gzip_set());
  const auto sink = std::make_shared<Sink>();
  {
    DataLoader loader(open(set), {.batch_size = 10, .trace = sink});
    while (loader.next()) {
    }
  }
  for (const Stage stage : {Stage::plan, Stage::gather, Stage::wait}) {
    EXPECT_EQ(sink->ended_[static_cast<std::size_t>(stage)], 10) << name_of(stage);
  }
  EXPECT_GE(sink->ended_[static_cast<std::size_t>(Stage::read_decode)], 10);
  for (const auto& open_spans : sink->open_) EXPECT_EQ(open_spans, 0);
}

TEST(DataLoaderReport, names_seed_speed_wait_and_cache) {
  const SampleSet set(gzip_set());
  DataLoader loader(open(set), {.batch_size = 10, .seed = 77});
  while (loader.next()) {
  }
  EXPECT_THAT(loader.report(), HasSubstr("100 samples in 10 batches"));
  EXPECT_THAT(loader.report(), HasSubstr("seed 77, num_workers 0, device cpu\n"));
  EXPECT_THAT(loader.report(), HasSubstr("hit rate"));
}

}  // namespace
}  // namespace h5feed::test
