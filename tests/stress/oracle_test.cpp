// SPDX-License-Identifier: Apache-2.0
// The oracle: with any number of workers an epoch is byte for byte what num_workers = 0 delivers, and
// that is what the file holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "support/captured_log.hpp"
#include "support/files/sample_set.hpp"

namespace h5feed::test {
namespace {

struct Layout {
  const char* name;
  std::vector<std::uint64_t> chunk_shape;
  bool compact = false;
};

struct Filter {
  const char* name;
  bool shuffle = false;
  int gzip = -1;
  bool fletcher32 = false;
};

struct Epoch {
  std::vector<std::int64_t> indices;
  std::vector<std::byte> data;
  std::vector<std::int64_t> labels;
  std::vector<std::size_t> batch_sizes;

  bool operator==(const Epoch&) const = default;
};

Epoch run_epoch(DataLoader& loader) {
  Epoch epoch;
  for (const Batch& batch : loader) {
    epoch.batch_sizes.push_back(static_cast<std::size_t>(batch.size()));
    epoch.indices.insert(epoch.indices.end(), batch.indices.begin(), batch.indices.end());
    const auto bytes = static_cast<std::size_t>(batch.data.elements()) * size_of(batch.data.dtype);
    epoch.data.insert(epoch.data.end(), batch.data.bytes.get(), batch.data.bytes.get() + bytes);
    const auto labels = batch.target.as<std::int64_t>();
    epoch.labels.insert(epoch.labels.end(), labels.begin(), labels.end());
  }
  return epoch;
}

void expect_the_files_content(const Epoch& epoch, const SampleSet& set) {
  std::vector<std::int64_t> sorted = epoch.indices;
  std::ranges::sort(sorted);
  std::vector<std::int64_t> all(set.samples());
  std::iota(all.begin(), all.end(), 0);
  ASSERT_EQ(sorted, all) << "every sample once";
  ASSERT_EQ(epoch.data.size(), set.samples() * set.sample_bytes());
  for (std::size_t i = 0; i < epoch.indices.size(); ++i) {
    ASSERT_EQ(std::memcmp(epoch.data.data() + i * set.sample_bytes(), set.sample(epoch.indices[i]),
                          set.sample_bytes()),
              0)
        << "sample " << epoch.indices[i];
    ASSERT_EQ(epoch.labels[i], set.label(epoch.indices[i]));
  }
}

class Oracle : public testing::TestWithParam<std::tuple<Layout, Filter>> {};

TEST_P(Oracle, epochs_are_the_same_for_every_number_of_workers) {
  const test::CapturedLog quiet;  // small caches are the point here, not worth their warnings
  const auto& [layout, filter] = GetParam();
  SampleSetSpec spec;
  spec.shape = {103, 8, 6};
  spec.chunk_shape = layout.chunk_shape;
  spec.compact = layout.compact;
  spec.shuffle = filter.shuffle;
  spec.gzip = filter.gzip;
  spec.fletcher32 = filter.fletcher32;
  const SampleSet set(spec);
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images", .target = "labels"});
  const Dataset isolated = Dataset::open(
      {.files = {set.path()}, .data = "images", .target = "labels", .isolation = Isolation::process});

  const bool one_chunk = spec.chunk_shape.empty() || spec.chunk_shape.front() == spec.shape.front();
  for (const char* shuffle : {"sequential", "full", one_chunk ? "chunk:1" : "chunk:3"}) {
    for (const std::int64_t batch_size : {1, 16, 103, 1000}) {
      // A cache of two chunks (of 10 rows): eviction and reuse both happen.
      DataLoaderOptions options{.batch_size = batch_size, .shuffle = shuffle, .seed = 11, .cache_bytes = 960};
      DataLoader oracle(dataset, options);
      const Epoch first = run_epoch(oracle);
      const Epoch second = run_epoch(oracle);
      expect_the_files_content(first, set);
      expect_the_files_content(second, set);
      if (std::string_view(shuffle) != "sequential") {
        EXPECT_NE(first.indices, second.indices);
      }
      for (const std::int64_t workers :
           {std::int64_t{1}, std::int64_t{2}, std::int64_t{4}, std::int64_t{8}, kAuto}) {
        options.num_workers = workers;
        DataLoader loader(dataset, options);
        ASSERT_EQ(run_epoch(loader), first) << shuffle << " batch " << batch_size << " workers " << workers;
        ASSERT_EQ(run_epoch(loader), second) << shuffle << " batch " << batch_size << " workers " << workers;
      }
      DataLoader elsewhere(isolated, options);
      ASSERT_EQ(run_epoch(elsewhere), first) << shuffle << " batch " << batch_size << " in isolation";
    }
  }
}

std::vector<std::tuple<Layout, Filter>> matrix() {
  const std::vector<Layout> chunked = {{"rows_of_10", {10, 8, 6}},
                                       {"one_row", {1, 8, 6}},
                                       {"whole", {103, 8, 6}},
                                       {"split_samples", {7, 4, 4}},
                                       {"split_rows_only", {20, 8, 5}}};
  const std::vector<Filter> filters = {{"none"},
                                       {"gzip", false, 4},
                                       {"shuffle_gzip_fletcher32", true, 1, true},
                                       {"fletcher32", false, -1, true}};
  std::vector<std::tuple<Layout, Filter>> all = {{{"contiguous", {}}, {"none"}},
                                                 {{"compact", {}, true}, {"none"}}};
  for (const Layout& layout : chunked) {
    for (const Filter& filter : filters) all.emplace_back(layout, filter);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(LayoutsAndFilters, Oracle, testing::ValuesIn(matrix()), [](const auto& instance) {
  return std::string(std::get<0>(instance.param).name) + "_" + std::get<1>(instance.param).name;
});

TEST(Oracle, normalized_and_transposed_batches_are_the_same_too) {
  const SampleSet set({.shape = {90, 5, 7, 3}, .chunk_shape = {8, 3, 7, 3}, .gzip = 1});
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images", .target = "labels"});
  const test::CapturedLog quiet;
  DataLoaderOptions options{.batch_size = 7, .shuffle = "full", .seed = 2, .cache_bytes = 4000};
  options.normalize = {.mean = {0.1, 0.2, 0.3}, .std = {0.5, 0.6, 0.7}};
  DataLoader oracle(dataset, options);
  const Epoch expected = run_epoch(oracle);
  ASSERT_EQ(expected.indices.size(), 90u);
  // One value checked by hand: sample, channel, pixel as delivered (C,H,W).
  float value = 0;
  std::memcpy(&value, expected.data.data() + (2 * 35 + 4) * sizeof(float), sizeof value);
  const auto stored = std::to_integer<int>(set.sample(expected.indices[0])[4 * 3 + 2]);
  EXPECT_EQ(value, static_cast<float>((stored * (1.0 / 255) - 0.3) / 0.7));
  for (const std::int64_t workers :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{4}, std::int64_t{8}, kAuto}) {
    options.num_workers = workers;
    DataLoader loader(dataset, options);
    ASSERT_EQ(run_epoch(loader), expected) << workers << " workers";
  }
}

TEST(Oracle, rows_read_directly_are_the_same_as_rows_from_chunks) {
  const SampleSet set({.shape = {300, 16, 16}, .chunk_shape = {7, 16, 16}});
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images", .target = "labels"});
  const test::CapturedLog quiet;
  for (const bool normalized : {false, true}) {
    DataLoaderOptions options{
        .batch_size = 32, .shuffle = "full", .cache_bytes = 4096, .row_reads = RowReads::never};
    if (normalized) options.normalize = Normalize{};
    DataLoader oracle(dataset, options);
    const Epoch expected = run_epoch(oracle);
    EXPECT_EQ(oracle.stats().rows_direct, 0u);
    for (const std::int64_t workers : {0, 1, 4}) {
      options.row_reads = RowReads::always;
      options.num_workers = workers;
      DataLoader loader(dataset, options);
      ASSERT_EQ(run_epoch(loader), expected) << workers << " workers";
      EXPECT_GE(loader.stats().rows_direct, 300u);
      EXPECT_EQ(loader.stats().cache_misses, 0u);
    }
  }
}

TEST(Oracle, samples_in_two_chunks_are_gathered_whole) {
  // CelebA's shape in little: the second chunk of a sample holds its last line of pixels.
  const SampleSet set({.shape = {57, 3, 22, 18}, .chunk_shape = {10, 3, 21, 18}, .gzip = 1});
  const Dataset dataset = Dataset::open(
      {.files = {set.path()}, .data = "images", .target = "labels", .input_layout = InputLayout::nchw});
  const test::CapturedLog quiet;
  for (const char* shuffle : {"sequential", "chunk:2", "full"}) {
    // Too small for one of the pair, enough for a pair, enough for all.
    for (const std::uint64_t cache_bytes : {1'000U, 30'000U, 1'000'000U}) {
      DataLoaderOptions options{.batch_size = 8, .shuffle = shuffle, .seed = 5, .cache_bytes = cache_bytes};
      DataLoader oracle(dataset, options);
      const Epoch expected = run_epoch(oracle);
      expect_the_files_content(expected, set);
      for (const std::int64_t workers : {1, 4}) {
        options.num_workers = workers;
        DataLoader loader(dataset, options);
        ASSERT_EQ(run_epoch(loader), expected) << shuffle << ", " << workers << " workers, " << cache_bytes;
      }
    }
  }
}

TEST(Oracle, unordered_delivery_loses_and_repeats_nothing) {
  const SampleSet set({.shape = {500, 8, 6}, .chunk_shape = {10, 8, 6}, .gzip = 1});
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images", .target = "labels"});
  DataLoader loader(dataset, {.batch_size = 3, .in_order = false, .shuffle = "full", .num_workers = 4});
  for (int epoch = 0; epoch < 3; ++epoch) expect_the_files_content(run_epoch(loader), set);
}

}  // namespace
}  // namespace h5feed::test
