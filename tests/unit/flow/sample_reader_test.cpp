// SPDX-License-Identifier: Apache-2.0
#include "h5feed/sample_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <numeric>
#include <thread>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/stored_samples.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;

Dataset open(const test::SampleSet& set, InputLayout layout = InputLayout::automatic) {
  return Dataset::open({.files = {set.path()}, .data = "images", .target = "labels", .input_layout = layout});
}

std::vector<std::int64_t> all_samples(const test::SampleSet& set) {
  std::vector<std::int64_t> samples(set.samples());
  std::iota(samples.begin(), samples.end(), 0);
  return samples;
}

void expect_samples_and_labels(const test::SampleSet& set, const Batch& batch) {
  expect_stored(set, batch);
  for (std::size_t i = 0; i < batch.indices.size(); ++i)
    ASSERT_EQ(batch.target.as<std::int64_t>()[i], set.label(batch.indices[i]));
}

const std::vector<test::SampleSetSpec>& storages() {
  static const std::vector<test::SampleSetSpec> specs = {
      {},                                                      // contiguous
      {.chunk_shape = {7, 8, 6}, .gzip = 4},                   // whole samples in chunks
      {.chunk_shape = {7, 3, 4}, .shuffle = true, .gzip = 1},  // samples in several pieces
      {.shape = {100, 8, 6}, .dtype = DType::i16, .chunk_shape = {100, 8, 6}},
  };
  return specs;
}

TEST(SampleReader, reads_samples_in_any_order_and_more_than_once) {
  for (const test::SampleSetSpec& spec : storages()) {
    const test::SampleSet set(spec);
    const SampleReader reader(open(set, InputLayout::nhw));
    const std::vector<std::int64_t> samples = {99, 0, 50, 0, 13, 14, 51};
    const Batch batch = reader.read(samples);
    EXPECT_EQ(batch.indices, samples);
    EXPECT_EQ(batch.data.shape, (std::vector<std::int64_t>{7, 1, 8, 6}));
    EXPECT_EQ(batch.target.shape, (std::vector<std::int64_t>{7}));
    expect_samples_and_labels(set, batch);
  }
}

TEST(SampleReader, reads_rows_past_the_cache_where_it_is_told_to) {
  const test::SampleSet set(test::SampleSetSpec{});
  const SampleReader reader(open(set), {.row_reads = RowReads::always});
  expect_samples_and_labels(set, reader.read(all_samples(set)));
  EXPECT_EQ(reader.stats().rows_direct, 100U);
  const SampleReader normalizing(open(set), {.normalize = Normalize{}, .row_reads = RowReads::always});
  EXPECT_EQ(normalizing.read(all_samples(set)).data.dtype, DType::f32);
}

TEST(SampleReader, delivers_what_a_loader_delivers) {
  const test::SampleSet set({.shape = {40, 8, 6, 3}, .chunk_shape = {10, 8, 6, 3}, .gzip = 4});
  const Dataset dataset = open(set);
  const Normalize normalize{.scale = {}, .mean = {0.1, 0.2, 0.3}, .std = {0.5, 0.6, 0.7}};
  DataLoader loader(dataset, {.batch_size = 40, .normalize = normalize, .target_dtype = DType::f32});
  const Batch expected = *loader.next();
  const SampleReader reader(dataset, {.normalize = normalize, .target_dtype = DType::f32});
  const Batch batch = reader.read(all_samples(set));
  EXPECT_EQ(batch.data.shape, expected.data.shape);
  EXPECT_TRUE(std::ranges::equal(batch.data.as<float>(), expected.data.as<float>()));
  EXPECT_TRUE(std::ranges::equal(batch.target.as<float>(), expected.target.as<float>()));
}

// All samples, from several threads, each in an order of its own.
void read_from_threads(const test::SampleSet& set, const SampleReader& reader) {
  constexpr std::size_t kThreads = 6;
  std::latch start(kThreads);
  std::vector<std::jthread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::vector<std::int64_t> samples = all_samples(set);
      std::rotate(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(thread * 17), samples.end());
      start.arrive_and_wait();
      for (std::size_t first = 0; first < samples.size(); first += 10) {
        expect_samples_and_labels(set, reader.read(std::span(samples).subspan(first, 10)));
      }
    });
  }
}

TEST(SampleReader, decodes_a_chunk_once_for_all_threads) {
  const test::SampleSet set({.chunk_shape = {7, 8, 6}, .gzip = 4});
  const SampleReader reader(open(set));
  read_from_threads(set, reader);
  EXPECT_EQ(reader.stats().chunk_loads, 15U);
  EXPECT_EQ(reader.stats().samples, 600U);
}

TEST(SampleReader, works_from_many_threads_without_any_cache) {
  const test::SampleSet set({.chunk_shape = {7, 3, 4}, .gzip = 4});
  const SampleReader reader(open(set), {.cache_bytes = 0});
  read_from_threads(set, reader);
}

TEST(SampleReader, finds_what_a_loader_of_the_dataset_decoded) {
  const test::SampleSet set({.chunk_shape = {7, 8, 6}, .gzip = 4});
  const Dataset dataset = open(set);
  DataLoader loader(dataset, {.batch_size = 100});
  loader.next();
  const SampleReader reader(dataset);
  expect_samples_and_labels(set, reader.read(all_samples(set)));
  EXPECT_EQ(reader.stats().chunk_loads, 0U);
}

TEST(SampleReader, counts_positions_of_a_subset) {
  const test::SampleSet set({.chunk_shape = {7, 8, 6}, .gzip = 4});
  const std::vector<std::int64_t> chosen = {70, 3, 55};
  const SampleReader reader(open(set).subset(chosen));
  const std::vector<std::int64_t> positions = {2, 0};
  const Batch batch = reader.read(positions);
  EXPECT_EQ(batch.indices, (std::vector<std::int64_t>{55, 70}));
  expect_samples_and_labels(set, batch);
}

TEST(SampleReader, reads_no_samples_as_an_empty_batch) {
  const test::SampleSet set(test::SampleSetSpec{});
  const Batch batch = SampleReader(open(set)).read({});
  EXPECT_TRUE(batch.data.defined());
  EXPECT_EQ(batch.data.shape, (std::vector<std::int64_t>{0, 1, 8, 6}));
}

TEST(SampleReader, refuses_a_number_outside_the_dataset) {
  const test::SampleSet set(test::SampleSetSpec{});
  const SampleReader reader(open(set));
  for (const std::int64_t outside : {std::int64_t{-1}, std::int64_t{100}}) {
    const std::vector<std::int64_t> samples = {0, outside};
    EXPECT_THAT(test::refusal_of<DatasetError>([&] { reader.read(samples); }), HasSubstr("use 0 to 99"));
  }
}

TEST(SampleReader, fails_for_the_samples_of_a_damaged_chunk_only) {
  const test::SampleSet set({.chunk_shape = {10, 8, 6}, .fletcher32 = true});
  const Dataset dataset = open(set);
  test::damage(set.path(), std::filesystem::file_size(set.path()) / 2, 1);
  const SampleReader reader(dataset);
  std::size_t failed = 0;
  for (const std::int64_t sample : all_samples(set)) {
    try {
      expect_samples_and_labels(set, reader.read(std::span(&sample, 1)));
    } catch (const ChunkError&) {
      ++failed;
    }
  }
  EXPECT_EQ(failed, 10U);
}

}  // namespace
}  // namespace h5feed::test
