// SPDX-License-Identifier: Apache-2.0
// Batch echoing on the CPU: what is served again, what an epoch is then, and where a run resumes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "flow/values/augmentation.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

DataLoaderOptions echo_options(std::int64_t factor, std::int64_t workers = 0) {
  DataLoaderOptions options{.batch_size = 30, .shuffle = true, .seed = 4, .num_workers = workers};
  options.echo = {.factor = factor};
  return options;
}

TEST(Echo, serves_every_batch_so_many_times_in_memory_of_its_own) {
  const SampleSet set(gzip_set());
  DataLoader plain(open(set), echo_options(1));
  const auto once = rest_of_epoch(plain);
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(open(set), echo_options(3, workers));
    EXPECT_EQ(loader.size(), 12u);
    std::vector<Batch> batches;
    while (auto batch = loader.next()) batches.push_back(*std::move(batch));
    ASSERT_EQ(batches.size(), 12u);
    for (std::size_t i = 0; i < batches.size(); ++i) {
      Delivery delivery = delivery_of(batches[i]);
      EXPECT_EQ(delivery.repeat, static_cast<std::int64_t>(i % 3));
      delivery.repeat = 0;
      EXPECT_TRUE(delivery == once[i / 3]) << i;
      if (i % 3 > 0) {
        EXPECT_NE(batches[i].data.bytes, batches[i - 1].data.bytes) << "a consumer may write to it";
      }
    }
    const LoaderStats stats = loader.stats();
    EXPECT_EQ(stats.samples, 300u);
    EXPECT_EQ(stats.samples_echoed, 200u);
    EXPECT_EQ(stats.bytes_decoded, plain.stats().bytes_decoded) << "decoded once";
  }
}

TEST(Echo, draws_other_crops_for_each_repeat) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  DataLoaderOptions options = echo_options(3, 2);
  options.augment = Augment{.horizontal_flip = 0.5, .random_crop = Augment::RandomCrop{.padding = 3}};
  const Augmentation augmentation(*options.augment, 8, 6);
  DataLoader loader(dataset, options);
  const auto epoch = rest_of_epoch(loader);
  for (const Delivery& delivery : epoch) {
    EXPECT_EQ(delivery.transforms, augmentation.draw_all(4, 0, delivery.repeat, delivery.indices));
  }
  options.num_workers = 0;
  options.row_reads = RowReads::never;
  DataLoader alone(dataset, options);
  EXPECT_TRUE(rest_of_epoch(alone) == epoch);
}

TEST(Echo, serves_rows_that_bypass_the_cache_and_samples_that_span_chunks_as_well) {
  for (const SampleSetSpec& spec :
       {SampleSetSpec{.shape = {60, 8, 6}},
        SampleSetSpec{.shape = {60, 8, 6}, .chunk_shape = {7, 4, 6}, .gzip = 1}}) {
    const SampleSet set(spec);
    DataLoaderOptions options = echo_options(2, 2);
    if (spec.gzip < 0) options.row_reads = RowReads::always;
    DataLoader loader(open(set), options);
    for (const Delivery& delivery : rest_of_epoch(loader)) {
      for (std::size_t i = 0; i < delivery.indices.size(); ++i) {
        ASSERT_EQ(std::memcmp(delivery.data.data() + i * set.sample_bytes(), set.sample(delivery.indices[i]),
                              set.sample_bytes()),
                  0);
      }
    }
    EXPECT_EQ(loader.stats().samples, 120u);
  }
}

TEST(Echo, resumes_at_every_delivery) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  DataLoaderOptions options = echo_options(3, 2);
  options.augment = Augment{.horizontal_flip = 0.5, .random_crop = Augment::RandomCrop{.padding = 3}};
  DataLoader whole(dataset, options);
  std::vector<Delivery> two_epochs = rest_of_epoch(whole);
  for (Delivery& delivery : rest_of_epoch(whole)) two_epochs.push_back(std::move(delivery));
  for (std::size_t stop = 0; stop <= 13; ++stop) {
    DataLoader first(dataset, options);
    for (std::size_t i = 0; i < stop; ++i) {
      if (!first.next()) first.next();  // the end of an epoch, then the begin of the next
    }
    const LoaderState state = first.state();
    options.num_workers = stop % 2 == 0 ? 0 : 2;
    DataLoader second(dataset, options);
    second.restore(LoaderState::from_bytes(state.to_bytes()));
    EXPECT_EQ(second.state(), state) << stop;
    const auto rest = rest_of_epoch(second);
    ASSERT_FALSE(rest.empty());
    for (std::size_t i = 0; i < rest.size(); ++i)
      ASSERT_TRUE(rest[i] == two_epochs[stop + i]) << stop << "+" << i;
  }
}

TEST(Echo, has_a_state_of_its_own_that_another_factor_refuses_and_another_batch_size_takes) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  DataLoader twice(dataset, echo_options(2));
  twice.next();
  const LoaderState in_the_middle = twice.state();
  twice.next();
  const LoaderState after = twice.state();
  EXPECT_EQ(in_the_middle.position, 1u);
  EXPECT_EQ(after.position, 60u);
  DataLoader thrice(dataset, echo_options(3));
  EXPECT_THAT(
      refusal_of<StateError>([&] { thrice.restore(after); }),
      HasSubstr("of a run with echo.factor 2, this loader has 3; a position counts deliveries, restore "
                "it with echo.factor = 2"));
  DataLoader once(dataset, echo_options(1));
  EXPECT_THAT(refusal_of<StateError>([&] { once.restore(after); }),
              HasSubstr("echo.factor 2, this loader has 1"));

  DataLoaderOptions other = echo_options(2);
  other.batch_size = 10;
  DataLoader smaller(dataset, other);
  smaller.restore(after);
  const auto rest = rest_of_epoch(smaller);
  EXPECT_EQ(rest.size(), 14u) << "70 samples in batches of 10, each twice";
}

TEST(Echo, resumed_between_two_deliveries_delivers_the_rest_of_them_in_batches_of_the_new_size) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  DataLoader before(dataset, echo_options(2));
  const std::vector<std::int64_t> first = before.next().value().indices;
  const LoaderState state = before.state();
  EXPECT_EQ(state.echo_samples, 30u);

  const auto resumed_with = [&](std::int64_t batch_size) {
    DataLoaderOptions options = echo_options(2);
    options.batch_size = batch_size;
    DataLoader after(dataset, options);
    EXPECT_EQ(after.size(), 2 * static_cast<std::size_t>((100 + batch_size - 1) / batch_size));
    after.restore(state);
    EXPECT_EQ(after.size(), 2 * static_cast<std::size_t>((100 + batch_size - 1) / batch_size))
        << "of a whole epoch";
    return rest_of_epoch(after);
  };
  const auto larger = resumed_with(40);
  EXPECT_EQ(larger.front().indices, first);
  EXPECT_EQ(larger.front().repeat, 1u);
  EXPECT_EQ(larger.size(), 5u) << "30 once more, then 40 and 30 twice each";
  const auto smaller = resumed_with(20);
  EXPECT_EQ(smaller.size(), 10u) << "20 and 10 once more, then 20, 20, 20 and 10 twice each";
  EXPECT_EQ(smaller[1].indices, std::vector<std::int64_t>(first.begin() + 20, first.end()));
  EXPECT_EQ(smaller[1].repeat, 1u);
}

TEST(Echo, advises_a_batch_that_fits_all_that_is_left_of_two_batches) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  const auto loader_of = [&](std::int64_t batch_size) {
    DataLoaderOptions options = echo_options(3);
    options.drop_last = true;
    options.batch_size = batch_size;
    return DataLoader(dataset, options);
  };
  DataLoader first = loader_of(8);
  first.next();
  DataLoader second = loader_of(1);
  second.restore(first.state());
  for (int delivery = 0; delivery < 3; ++delivery) second.next();
  DataLoader third = loader_of(48);
  EXPECT_THAT(refusal_of<StateError>([&] { third.restore(second.state()); }), HasSubstr(" that divides 1,"));
  DataLoader fourth = loader_of(1);
  fourth.restore(second.state());
}

TEST(Echo, resumes_with_drop_last_only_in_full_batches) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  DataLoaderOptions options = echo_options(2);
  options.drop_last = true;
  DataLoader before(dataset, options);
  before.next();
  options.batch_size = 20;
  DataLoader after(dataset, options);
  EXPECT_THAT(
      refusal_of<StateError>([&] { after.restore(before.state()); }),
      HasSubstr("inside an echo of 30 samples, which batch_size 20 with world_size 1 and drop_last does "
                "not cut into full batches; use a batch_size × world_size that divides 30"));
  EXPECT_EQ(rest_of_epoch(after).size(), 10u) << "the loader is as before";
  options.batch_size = 15;
  DataLoader fitting(dataset, options);
  fitting.restore(before.state());
  EXPECT_EQ(rest_of_epoch(fitting).size(), 2u + 2 * 4) << "30 once more, 60 of the other 70 twice";
}

TEST(Echo, refuses_a_state_between_two_deliveries_that_does_not_say_of_which_samples) {
  const SampleSet set(gzip_set());
  DataLoader loader(open(set), echo_options(2));
  loader.next();
  LoaderState state = loader.state();
  state.echo_samples = 0;
  EXPECT_THAT(refusal_of<StateError>([&] { loader.restore(state); }),
              HasSubstr("inside an echo, but its echo_samples is 0"));
  state.position = 60;
  loader.restore(state);
  EXPECT_EQ(rest_of_epoch(loader).size(), 6u);
}

TEST(Echo, refuses_a_state_whose_echo_is_over) {
  const SampleSet set(gzip_set());
  DataLoader loader(open(set), echo_options(2));
  loader.next();
  LoaderState state = loader.state();
  state.echo_ahead = state.echo_samples;
  EXPECT_THAT(refusal_of<StateError>([&] { loader.restore(state); }), HasSubstr("of an epoch that has 100"));
}

TEST(Echo, reports_a_batch_that_fails_once) {
  const SampleSet set(gzip_set());
  damage(set.path(), chunk_offset(set, 3) + 4, 8);
  DataLoaderOptions options{.batch_size = 10};
  options.echo = {.factor = 2};
  DataLoader loader(open(set), options);
  int delivered = 0, failed = 0;
  for (int i = 0; i < 19; ++i) {
    try {
      if (loader.next()) ++delivered;
    } catch (const ChunkError&) {
      ++failed;
    }
  }
  EXPECT_EQ(delivered, 18);
  EXPECT_EQ(failed, 1);
  EXPECT_FALSE(loader.next());
}

TEST(Echo, counts_the_memory_of_the_repeats) {
  const SampleSet set(gzip_set());
  DataLoaderOptions options = echo_options(3);
  options.memory_budget_bytes = 1000;
  EXPECT_THAT(refusal<OptionError>(open(set), options), HasSubstr("× 3 slots "));
}

TEST(Echo, refuses_factors_that_do_not_work) {
  const SampleSet set(gzip_set());
  DataLoaderOptions options;
  options.echo = {.factor = 0};
  EXPECT_THAT(refusal<OptionError>(open(set), options), HasSubstr("echo.factor must be 1 to 1024; got 0"));
}

TEST(Echo, may_be_left_at_any_delivery) {
  const SampleSet set(gzip_set());
  DataLoader loader(open(set), echo_options(3, 2));
  for (int stop = 0; stop < 12; ++stop) {
    loader.start_epoch();
    for (int i = 0; i < stop; ++i) EXPECT_EQ(loader.next().value().repeat, i % 3);
  }
}

}  // namespace
}  // namespace h5feed::test
