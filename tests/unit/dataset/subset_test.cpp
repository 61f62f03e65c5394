// SPDX-License-Identifier: Apache-2.0
// Subsets and splits of a dataset, through the loader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"
#include "support/loaders/stored_samples.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

// What one epoch delivers, each sample and label checked against the file.
std::vector<std::int64_t> delivered(DataLoader& loader, const SampleSet& set) {
  std::vector<std::int64_t> all;
  for (Batch& batch : loader) {
    expect_stored(set, batch);
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      const std::int64_t index = batch.indices[i];
      EXPECT_EQ(batch.target.as<std::int64_t>()[i], set.label(index));
      all.push_back(index);
    }
  }
  return all;
}

TEST(Subset, delivers_its_samples_in_the_order_given) {
  const SampleSet set(gzip_set());
  const std::vector<std::int64_t> chosen = {90, 3, 4, 55, 54, 12};
  const Dataset part = open(set).subset(chosen);
  EXPECT_EQ(part.size(), 6);
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(part, {.batch_size = 4, .num_workers = workers});
    EXPECT_EQ(loader.size(), 2u);
    EXPECT_EQ(delivered(loader, set), chosen);
  }
}

TEST(Subset, is_shuffled_in_every_mode) {
  const SampleSet set(gzip_set());
  std::vector<std::int64_t> chosen;
  for (std::int64_t sample = 99; sample >= 0; sample -= 3) chosen.push_back(sample);
  const Dataset part = open(set).subset(chosen);
  std::ranges::sort(chosen);
  for (const char* shuffle : {"full", "chunk:2", "chunk:10"}) {
    for (const CachePolicy policy : {CachePolicy::lru, CachePolicy::clairvoyant, CachePolicy::keep_first}) {
      DataLoader loader(part, {.batch_size = 8,
                               .shuffle = shuffle,
                               .seed = 3,
                               .num_workers = 2,
                               .cache_bytes = 3 * 480,
                               .cache_policy = policy});
      std::vector<std::int64_t> samples = delivered(loader, set);
      EXPECT_FALSE(std::ranges::is_sorted(samples)) << shuffle;
      std::ranges::sort(samples);
      EXPECT_EQ(samples, chosen) << shuffle;
    }
  }
}

TEST(Subset, of_a_subset_counts_within_it) {
  const SampleSet set(gzip_set());
  const std::vector<std::int64_t> first = {50, 40, 30, 20};
  const std::vector<std::int64_t> second = {3, 0};
  DataLoader loader(open(set).subset(first).subset(second), {.batch_size = 2});
  EXPECT_EQ(delivered(loader, set), (std::vector<std::int64_t>{20, 50}));
}

TEST(Subset, refuses_numbers_that_are_no_samples) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  const auto with = [&](std::vector<std::int64_t> samples) {
    return test::refusal_of<OptionError>([&] { (void)dataset.subset(samples); });
  };
  EXPECT_THAT(with({}), HasSubstr("empty"));
  EXPECT_THAT(with({0, 100}),
              HasSubstr("entry 1 of the subset is sample 100; the dataset has 100, numbered 0 to 99"));
  EXPECT_THAT(with({-1}), HasSubstr("sample -1"));
  EXPECT_THAT(with({7, 3, 7}), HasSubstr("sample 7 comes twice"));
}

TEST(Split, makes_disjoint_parts_of_the_sizes_asked_for) {
  const SampleSet set(gzip_set());
  const std::vector<Dataset> parts = open(set).split({0.9, 0.06, 0.04}, 5);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].size(), 90);
  EXPECT_EQ(parts[1].size(), 6);
  EXPECT_EQ(parts[2].size(), 4);
  std::set<std::int64_t> all;
  for (const Dataset& part : parts) {
    DataLoader loader(part, {.batch_size = 16});
    for (const std::int64_t sample : delivered(loader, set)) EXPECT_TRUE(all.insert(sample).second);
  }
  EXPECT_EQ(all.size(), 100u);
}

TEST(Split, depends_on_the_seed_alone) {
  const SampleSet set(gzip_set());
  const auto first_part = [&](std::uint64_t seed) {
    DataLoader loader(open(set).split({0.5, 0.5}, seed)[0], {.batch_size = 50});
    return delivered(loader, set);
  };
  EXPECT_EQ(first_part(1), first_part(1));
  EXPECT_NE(first_part(1), first_part(2));
}

TEST(Split, refuses_fractions_that_cannot_work) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  const auto with = [&](std::vector<double> fractions) {
    return test::refusal_of<OptionError>([&] { (void)dataset.split(fractions, 1); });
  };
  EXPECT_THAT(with({0.5, 0.4}), HasSubstr("sum to 1; they sum to 0.9"));
  EXPECT_THAT(with({1.5, -0.5}), HasSubstr("got 1.5"));
  EXPECT_THAT(with({0.5, 0, 0.5}), HasSubstr("got 0"));
  EXPECT_THAT(with({std::numeric_limits<double>::quiet_NaN()}), HasSubstr("got nan"));
  EXPECT_THAT(with({}), HasSubstr("sum to 0"));
  EXPECT_THAT(with({0.995, 0.005}), HasSubstr("part 1 of the split would have no samples"));
  EXPECT_EQ(with({0.1, 0.2, 0.7}), "accepted");
}

}  // namespace
}  // namespace h5feed::test
