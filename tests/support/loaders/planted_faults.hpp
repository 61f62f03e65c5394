// SPDX-License-Identifier: Apache-2.0
// Chunks damaged on purpose, and what loaders make of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "support/captured_log.hpp"
#include "support/files/file_text.hpp"
#include "support/files/sample_set.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {

/// Flips bits in the compressed bytes of chunks of the images of `set`.
inline void damage_chunks(const SampleSet& set, const std::set<std::uint64_t>& chunks) {
  for (const std::uint64_t chunk : chunks) damage(set.path(), chunk_offset(set, chunk) + 4, 12);
}

/// Returns the third column, the chunks, of a list of bad chunks, without its header.
inline std::vector<std::string> listed_chunks(const std::filesystem::path& list) {
  std::vector<std::string> chunks;
  for (const std::string& line : lines_of(text_of(list))) {
    const std::size_t begin = line.find('\t', line.find('\t') + 1) + 1;
    chunks.push_back(line.substr(begin, line.find('\t', begin) - begin));
  }
  if (!chunks.empty()) chunks.erase(chunks.begin());
  return chunks;
}

/// Copies the batches of `epochs` epochs.
inline std::vector<Delivery> deliveries_of(const Dataset& dataset, const DataLoaderOptions& options,
                                           int epochs = 1) {
  DataLoader loader(dataset, options);
  std::vector<Delivery> all;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (Delivery& delivery : rest_of_epoch(loader)) all.push_back(std::move(delivery));
  }
  return all;
}

/// Returns the samples of batches, in order of delivery.
inline std::vector<std::int64_t> samples_of(const std::vector<Delivery>& deliveries) {
  std::vector<std::int64_t> samples;
  for (const Delivery& delivery : deliveries)
    samples.insert(samples.end(), delivery.indices.begin(), delivery.indices.end());
  return samples;
}

/// Samples of the fixture `Faults`, and of one chunk.
inline constexpr std::int64_t kFaultSamples = 1000, kFaultChunkRows = 10;

/// Returns the specification of 1000 samples in 100 chunks with a checksum.
inline SampleSetSpec big_set() {
  return {
      .shape = {kFaultSamples, 4, 4}, .chunk_shape = {kFaultChunkRows, 4, 4}, .gzip = 1, .fletcher32 = true};
}

/// 1000 samples in 100 chunks, two of which are damaged.
class Faults : public testing::Test {
 protected:
  Faults() { damage_chunks(set_, bad_); }

  bool is_bad(std::int64_t sample) const {
    return bad_.contains(static_cast<std::uint64_t>(sample / kFaultChunkRows));
  }

  static DataLoaderOptions options(OnError on_error, std::int64_t workers = 0) {
    DataLoaderOptions options{.batch_size = 16, .shuffle = true, .seed = 7, .num_workers = workers};
    options.on_error = on_error;
    options.max_bad_share = 0.05;
    return options;
  }

  // The samples in the order in which they are planned: those of a loader whose data is intact.
  std::vector<Delivery> planned(DataLoaderOptions options, int epochs = 1) const {
    options.on_error = OnError::fail;
    return deliveries_of(open(whole_), options, epochs);
  }

  void expect_skipped(const std::vector<Delivery>& delivered, const std::vector<Delivery>& planned) const {
    ASSERT_EQ(delivered.size(), planned.size());
    for (std::size_t i = 0; i < planned.size(); ++i) {
      std::vector<std::int64_t> good;
      std::ranges::copy_if(planned[i].indices, std::back_inserter(good),
                           [&](std::int64_t sample) { return !is_bad(sample); });
      EXPECT_EQ(delivered[i].indices, good) << "batch " << i;
      EXPECT_EQ(delivered[i].number, planned[i].number);
      EXPECT_EQ(delivered[i].shape.front(), static_cast<std::int64_t>(good.size()));
      expect_bytes(delivered[i]);
    }
  }

  void expect_bytes(const Delivery& delivery) const {
    const std::size_t bytes = set_.sample_bytes();
    ASSERT_EQ(delivery.data.size(), delivery.indices.size() * bytes);
    for (std::size_t i = 0; i < delivery.indices.size(); ++i)
      EXPECT_EQ(std::memcmp(delivery.data.data() + i * bytes, whole_.sample(delivery.indices[i]), bytes), 0)
          << "sample " << delivery.indices[i];
  }

  void expect_replaced(const std::vector<Delivery>& delivered, const std::vector<Delivery>& planned) const {
    ASSERT_EQ(delivered.size(), planned.size());
    for (std::size_t b = 0; b < planned.size(); ++b) {
      ASSERT_EQ(delivered[b].indices.size(), planned[b].indices.size());
      for (std::size_t i = 0; i < planned[b].indices.size(); ++i) {
        if (is_bad(planned[b].indices[i])) {
          EXPECT_FALSE(is_bad(delivered[b].indices[i]));
        } else {
          EXPECT_EQ(delivered[b].indices[i], planned[b].indices[i]);
        }
      }
      expect_bytes(delivered[b]);
    }
  }

  const std::set<std::uint64_t> bad_ = {17, 64};
  const SampleSet set_{big_set()};
  const SampleSet whole_{big_set()};  // the same without damage
  const CapturedLog log_;
  const TempDir dir_;
};

/// Returns whether a sample is bad.
using IsBad = std::function<bool(std::int64_t)>;

/// Checks that `skip` and `replace` deliver no bad sample, in batches as planned, the same for any number of
/// workers. `expect_batch` checks the contents of a batch.
inline void expect_good_samples(const Dataset& dataset, DataLoaderOptions options, const IsBad& is_bad,
                                const std::function<void(const Batch&)>& expect_batch) {
  options.max_bad_share = 1;
  std::int64_t good = 0;
  for (std::int64_t sample = 0; sample < dataset.size(); ++sample) good += is_bad(sample) ? 0 : 1;
  ASSERT_LT(good, dataset.size());
  for (const OnError on_error : {OnError::skip, OnError::replace}) {
    std::vector<std::vector<std::int64_t>> alone;
    for (const std::int64_t workers : {0, 1, 4}) {
      SCOPED_TRACE(std::string(name_of(on_error)) + ", workers " + std::to_string(workers));
      options.on_error = on_error;
      options.num_workers = workers;
      DataLoader loader(dataset, options);
      std::vector<std::vector<std::int64_t>> batches;
      std::set<std::int64_t> seen;
      while (const auto batch = loader.next()) {
        batches.push_back(batch->indices);
        seen.insert(batch->indices.begin(), batch->indices.end());
        for (const std::int64_t sample : batch->indices) EXPECT_FALSE(is_bad(sample)) << sample;
        if (on_error == OnError::replace && batches.size() < loader.size()) {
          EXPECT_EQ(batch->size(), *options.batch_size);
        }
        expect_batch(*batch);
      }
      EXPECT_EQ(batches.size(), loader.size());
      EXPECT_EQ(static_cast<std::int64_t>(seen.size()), good);
      if (workers == 0) alone = batches;
      EXPECT_EQ(batches, alone);
    }
  }
}

}  // namespace h5feed::test
