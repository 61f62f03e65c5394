// SPDX-License-Identifier: Apache-2.0
// DataLoaderOptions::transform: what it sees, and that the result depends on nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;

DataLoaderOptions transform_options(std::int64_t workers) {
  return {.batch_size = 7, .shuffle = true, .seed = 5, .num_workers = workers};
}

// Adds a random number to every byte.
void scramble(const SampleView& sample, const SampleKey& key) {
  for (std::size_t i = 0; i < sample.bytes.size(); ++i)
    sample.bytes[i] ^= static_cast<std::byte>(key.random(i));
}

// Returns the delivered bytes of samples that are delivered as `scramble` leaves them.
std::vector<std::byte> scrambled(const SampleSet& set, const Delivery& delivery) {
  std::vector<std::byte> bytes;
  for (const std::int64_t number : delivery.indices) {
    std::vector<std::byte> sample(set.sample(number), set.sample(number) + set.sample_bytes());
    scramble({.bytes = sample},
             {.seed = 5, .epoch = delivery.epoch, .sample = number, .repeat = delivery.repeat});
    bytes.insert(bytes.end(), sample.begin(), sample.end());
  }
  return bytes;
}

TEST(Transform, changes_each_delivery_of_a_sample_and_not_what_is_cached) {
  const std::array<SampleSetSpec, 3> specs = {
      gzip_set(), {.shape = {60, 8, 6}}, {.shape = {60, 8, 6}, .chunk_shape = {7, 4, 6}, .gzip = 1}};
  for (const SampleSetSpec& spec : specs) {
    const SampleSet set(spec);
    const Dataset dataset = open(set);
    for (const std::int64_t workers : {0, 2}) {
      for (const CachePolicy policy : {CachePolicy::lru, CachePolicy::clairvoyant, CachePolicy::keep_first}) {
        DataLoaderOptions options = transform_options(workers);
        options.transform = scramble;
        options.echo.factor = workers == 0 ? 2 : 1;
        options.cache_policy = policy;
        if (policy != CachePolicy::lru) options.cache_bytes = 1500;
        if (policy == CachePolicy::lru && spec.gzip < 0) options.row_reads = RowReads::always;
        DataLoader loader(dataset, options);
        for (int epoch = 0; epoch < 2; ++epoch) {
          const auto deliveries = rest_of_epoch(loader);
          ASSERT_FALSE(deliveries.empty());
          for (const Delivery& delivery : deliveries)
            ASSERT_TRUE(delivery.data == scrambled(set, delivery))
                << delivery.epoch << "/" << delivery.number;
        }
      }
    }
  }
}

TEST(Transform, sees_the_stored_type_and_shape_before_normalization_and_crop) {
  const SampleSet set(rgb_set(DType::i16));
  DataLoaderOptions options = transform_options(0);
  options.normalize = Normalize{.scale = 1.0, .mean = {1.0}, .std = {2.0}};
  options.augment = Augment{.random_crop = Augment::RandomCrop{.height = 2, .width = 2}};
  std::size_t seen = 0;
  options.transform = [&](const SampleView& sample, const SampleKey& key) {
    EXPECT_EQ(sample.dtype, DType::i16);
    EXPECT_THAT(sample.shape, ElementsAre(6, 5, 3));
    EXPECT_TRUE(sample.channels_last);
    EXPECT_EQ(std::memcmp(sample.bytes.data(), set.sample(key.sample), set.sample_bytes()), 0);
    EXPECT_EQ(key.seed, 5u);
    EXPECT_THROW(static_cast<void>(sample.as<float>()), std::invalid_argument);
    for (std::int16_t& value : sample.as<std::int16_t>()) value = 9;
    ++seen;
  };
  DataLoader loader(open(set), options);
  while (const auto batch = loader.next()) {
    for (const float value : batch->data.as<float>()) ASSERT_EQ(value, 4.0F);
  }
  EXPECT_EQ(seen, 50u);
}

TEST(Transform, that_throws_fails_its_batch_alone) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  for (const std::int64_t workers : {0, 3}) {
    DataLoaderOptions options = transform_options(workers);
    options.transform = [](const SampleView&, const SampleKey& key) {
      if (key.sample == 42) throw std::runtime_error("no sample 42");
    };
    DataLoader loader(dataset, options);
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::size_t samples = 0, failures = 0;
      while (true) {
        try {
          const auto batch = loader.next();
          if (!batch) break;
          samples += static_cast<std::size_t>(batch->size());
        } catch (const std::runtime_error& error) {
          EXPECT_STREQ(error.what(), "no sample 42");
          ++failures;
        }
      }
      EXPECT_EQ(failures, 1u);
      EXPECT_EQ(samples, 100u - 7 * failures);
    }
  }
}

TEST(Transform, gives_the_same_after_a_resume_with_other_workers) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  DataLoaderOptions options = transform_options(2);
  options.transform = scramble;
  options.echo.factor = 3;
  DataLoader whole(dataset, options);
  const std::vector<Delivery> expected = rest_of_epoch(whole);
  for (const std::size_t stop : {1u, 5u, 20u}) {
    DataLoader first(dataset, options);
    for (std::size_t i = 0; i < stop; ++i) first.next();
    DataLoaderOptions other = options;
    other.num_workers = 0;
    DataLoader second(dataset, other);
    second.restore(first.state());
    const std::vector<Delivery> rest = rest_of_epoch(second);
    ASSERT_EQ(rest.size(), expected.size() - stop);
    for (std::size_t i = 0; i < rest.size(); ++i) ASSERT_TRUE(rest[i] == expected[stop + i]) << stop + i;
  }
}

TEST(Transform, of_rows_in_memory_and_of_single_samples) {
  const SampleSet set(gzip_set());
  DataLoaderOptions options{.batch_size = std::nullopt, .seed = 5};
  options.transform = scramble;
  options.preload = true;
  DataLoader loader(open(set), options);
  for (const Delivery& delivery : rest_of_epoch(loader))
    ASSERT_TRUE(delivery.data == scrambled(set, delivery));
}

TEST(SampleKey, draws_independent_bits_for_every_part_of_it) {
  const SampleKey key{.seed = 1, .epoch = 2, .sample = 3, .repeat = 4};
  std::map<std::uint64_t, int> drawn;
  for (const SampleKey& other :
       {key, SampleKey{2, 2, 3, 4}, SampleKey{1, 3, 3, 4}, SampleKey{1, 2, 4, 4}, SampleKey{1, 2, 3, 5}}) {
    for (std::uint64_t purpose = 0; purpose < 3; ++purpose) ++drawn[other.random(purpose)];
  }
  EXPECT_EQ(drawn.size(), 15u);
  double sum = 0;
  for (std::uint64_t purpose = 0; purpose < 10000; ++purpose) {
    const double uniform = key.uniform(purpose);
    ASSERT_TRUE(uniform >= 0 && uniform < 1);
    sum += uniform;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

}  // namespace
}  // namespace h5feed::test
