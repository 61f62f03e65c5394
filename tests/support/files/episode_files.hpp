// SPDX-License-Identifier: Apache-2.0
// Fixture: episodes in files, and the windows of them that a dataset must deliver.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {

/// The rows of one field in one episode, in memory: `rows` rows of `width` values.
struct FieldRows {
  std::uint64_t rows = 0;
  std::uint64_t width = 1;
  std::vector<std::uint16_t> values;

  std::vector<std::uint16_t> row(std::uint64_t number) const {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(number * width);
    return {begin, begin + static_cast<std::ptrdiff_t>(width)};
  }
};

/// The rows of a field in all episodes.
using FieldEpisodes = std::vector<FieldRows>;

/// What is expected of one field of a batch.
struct ExpectedField {
  const FieldEpisodes* episodes = nullptr;
  std::vector<std::int64_t> window = {};  ///< Empty: the row of the anchor
};

/// Fixture for tests of windows. Values are uint16 and differ from row to row.
class EpisodeTest : public testing::Test {
 protected:
  /// Returns episodes of these numbers of rows, each row of `width` values.
  static FieldEpisodes make_episodes(const std::vector<std::uint64_t>& rows, std::uint64_t width,
                                     unsigned seed) {
    FieldEpisodes episodes;
    for (const std::uint64_t count : rows) {
      const std::vector<std::byte> random = random_bytes(static_cast<std::size_t>(count * width) * 2, seed++);
      FieldRows field{count, width, std::vector<std::uint16_t>(static_cast<std::size_t>(count * width))};
      if (count > 0) std::memcpy(field.values.data(), random.data(), random.size());
      episodes.push_back(std::move(field));
    }
    return episodes;
  }

  static std::vector<std::byte> bytes_of(const std::vector<std::uint16_t>& values) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
    return {bytes, bytes + values.size() * 2};
  }

  /// Writes values of shape `shape`, in chunks if `chunk` is not empty.
  static void put(H5TestFile& file, const std::string& path, const std::vector<std::uint64_t>& shape,
                  const std::vector<std::uint64_t>& chunk, const std::vector<std::uint16_t>& values) {
    TestDataset dataset{.path = path, .file_type = H5T_STD_U16LE, .shape = shape};
    if (!chunk.empty()) {
      dataset.chunk = chunk;
      for (std::size_t d = 0; d < chunk.size(); ++d)
        dataset.chunk[d] = std::max<std::uint64_t>(1, std::min(chunk[d], shape[d]));
      dataset.filters = {gzip_filter(1)};
    }
    file.create(dataset);
    if (!values.empty()) file.write(path, bytes_of(values));
  }

  /// Writes a table of integers.
  static void put_table(H5TestFile& file, const std::string& path, const std::vector<std::int64_t>& values) {
    file.create({.path = path, .file_type = H5T_STD_I64LE, .shape = {values.size()}});
    if (values.empty()) return;
    const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
    file.write(path, {bytes, values.size() * sizeof(std::int64_t)});
  }

  /// Writes each episode as a dataset `prefix`NUMBER/`name`.
  static void put_groups(H5TestFile& file, const std::string& name, const FieldEpisodes& episodes,
                         const std::vector<std::uint64_t>& chunk, const std::string& prefix = "data/demo_") {
    for (std::size_t i = 0; i < episodes.size(); ++i)
      put(file, prefix + std::to_string(i) + "/" + name, {episodes[i].rows, episodes[i].width}, chunk,
          episodes[i].values);
  }

  /// Writes all episodes as one dataset.
  static void put_joined(H5TestFile& file, const std::string& path, const FieldEpisodes& episodes,
                         const std::vector<std::uint64_t>& chunk) {
    std::vector<std::uint16_t> all;
    std::uint64_t rows = 0;
    for (const FieldRows& episode : episodes) {
      all.insert(all.end(), episode.values.begin(), episode.values.end());
      rows += episode.rows;
    }
    put(file, path, {rows, episodes.front().width}, chunk, all);
  }

  /// Returns the values that `expected` has around row `frame` of an episode.
  static std::vector<std::uint16_t> window_of(const ExpectedField& expected, std::size_t episode,
                                              std::int64_t frame, EpisodeOptions::Fill fill) {
    const FieldRows& rows = (*expected.episodes)[episode];
    std::vector<std::uint16_t> values;
    const std::vector<std::int64_t> offsets =
        expected.window.empty() ? std::vector<std::int64_t>{0} : expected.window;
    for (const std::int64_t offset : offsets) {
      const std::int64_t row = frame + offset;
      const std::int64_t last = static_cast<std::int64_t>(rows.rows) - 1;
      std::vector<std::uint16_t> one(rows.width, 0);
      if ((row >= 0 && row <= last) || fill == EpisodeOptions::Fill::repeat)
        one = rows.row(static_cast<std::uint64_t>(std::clamp<std::int64_t>(row, 0, last)));
      values.insert(values.end(), one.begin(), one.end());
    }
    return values;
  }

  /// Returns which rows of the window exist.
  static std::vector<std::uint8_t> valid_of(const ExpectedField& expected, std::size_t episode,
                                            std::int64_t frame) {
    std::vector<std::uint8_t> valid;
    for (const std::int64_t offset : expected.window) {
      const std::int64_t row = frame + offset;
      valid.push_back(row >= 0 && row < static_cast<std::int64_t>((*expected.episodes)[episode].rows) ? 1
                                                                                                      : 0);
    }
    return valid;
  }

  /// Compares sample `i` of a tensor with `expected`.
  template <typename T, typename U>
  static void check_values(const HostTensor& tensor, std::size_t i, const std::vector<U>& expected,
                           const std::string& what) {
    const auto all = tensor.as<T>();
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * expected.size());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), begin)) << what;
  }

  /// Compares a batch with provenance with what is expected of its fields: "data", "target" (delivered as
  /// int64), and named ones. `episode_numbers[e]` is the number, in the fields, of episode e that takes part.
  void check_batch(const Batch& batch) const {
    ASSERT_EQ(batch.origins.size(), batch.indices.size());
    for (std::size_t i = 0; i < batch.origins.size(); ++i) {
      const SampleOrigin& origin = batch.origins[i];
      const std::size_t episode = numbers.empty() ? static_cast<std::size_t>(origin.episode)
                                                  : numbers[static_cast<std::size_t>(origin.episode)];
      for (const auto& [name, expected] : expect) {
        const auto values = window_of(expected, episode, origin.frame, fill);
        const std::string what = name + " of sample " + std::to_string(batch.indices[i]) + ", episode " +
                                 std::to_string(episode) + ", frame " + std::to_string(origin.frame);
        if (name == "data") {
          check_values<std::uint16_t>(batch.data, i, values, what);
        } else if (name == "target") {
          check_values<std::int64_t>(batch.target, i, values, what);
        } else {
          check_values<std::uint16_t>(batch.field(name).values, i, values, what);
        }
        if (!says_valid || expected.window.empty()) continue;
        check_values<std::uint8_t>(batch.field(name + ".valid").values, i,
                                   valid_of(expected, episode, origin.frame), what + " valid");
      }
    }
  }

  /// Delivers an epoch and checks it. Returns how often each sample came.
  std::map<std::int64_t, int> check_epoch(DataLoader& loader) const {
    std::map<std::int64_t, int> seen;
    while (const auto batch = loader.next()) {
      check_batch(*batch);
      for (const std::int64_t index : batch->indices) ++seen[index];
      if (HasFailure()) break;
    }
    return seen;
  }

  /// Checks epochs of `dataset` with several numbers of workers, caches and orders: each window is right, and
  /// each sample comes once.
  void check_windows(const Dataset& dataset) const {
    constexpr std::array<const char*, 3> kOrders = {"sequential", "full", "chunk:1"};
    std::size_t order = 0;
    for (const std::int64_t workers : {0, 1, 2, 4}) {
      for (const std::uint64_t cache : {std::uint64_t{0}, std::uint64_t{2'000}, std::uint64_t{1} << 30}) {
        // Each number of workers meets each order, with another cache.
        const char* const shuffle = kOrders.at((order + order / 3) % 3);
        ++order;
        DataLoader loader(dataset, {.batch_size = 5,
                                    .shuffle = shuffle,
                                    .seed = 9,
                                    .num_workers = workers,
                                    .cache_bytes = cache,
                                    .provenance = true});
        for (int epoch = 0; epoch < 2; ++epoch) {
          const auto seen = check_epoch(loader);
          EXPECT_EQ(seen.size(), static_cast<std::size_t>(dataset.size()))
              << workers << " workers, cache " << cache << ", " << shuffle;
          EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& one) { return one.second == 1; }));
        }
        if (HasFailure()) return;
      }
    }
  }

  std::string refusal(const DatasetOptions& options) const {
    return refusal_in<Error>(dir_.path(), [&] { Dataset::open(options); });
  }

  TempDir dir_;
  std::map<std::string, ExpectedField> expect;  // by name
  std::vector<std::size_t> numbers;             // of the episodes that take part; empty: all
  EpisodeOptions::Fill fill = EpisodeOptions::Fill::repeat;
  bool says_valid = false;
};

}  // namespace h5feed::test
