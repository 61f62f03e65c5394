// Cache policies by what they promise: how often chunks are decoded, and that no policy changes a byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "cache/row_cache.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "store/chunk_index.hpp"
#include "support/captured_log.hpp"
#include "support/loader_cases.hpp"
#include "support/row_simulator.hpp"
#include "support/sample_set.hpp"

namespace h5feed {
namespace {

using test::CapturedLog;
using test::open;
using test::Requests;
using test::SampleSet;
using test::Simulation;

// 1000 compressed chunks of 20 small rows, in full shuffle, in a cache that holds a quarter.
class ManyChunks : public testing::Test {
 protected:
  static constexpr std::uint64_t kChunks = 1000, kRows = 20, kSamples = kChunks * kRows, kRowBytes = 256;
  static constexpr std::uint64_t kHeldRows = kSamples / 4, kEpochs = 3;

  static DataLoaderOptions options(CachePolicy policy, std::int64_t workers = 0) {
    const std::uint64_t row_bytes =
        kRowBytes + (policy == CachePolicy::clairvoyant ? RowCache::kBookkeepingBytes : 0);
    return {.batch_size = 256,
            .shuffle = "full",
            .num_workers = workers,
            .seed = 3,
            .cache_bytes = kHeldRows * row_bytes,
            .cache_policy = policy};
  }

  // Decodes per chunk and epoch.
  double decodes(CachePolicy policy, std::int64_t workers = 0) {
    DataLoader loader(dataset_, options(policy, workers));
    for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      while (loader.next()) {
      }
    }
    return static_cast<double>(loader.stats().chunk_loads) / kChunks / kEpochs;
  }

  // What the loader is asked for, and one epoch more.
  Requests requests() {
    DataLoader loader(dataset_, options(CachePolicy::lru));
    Requests requests;
    for (std::uint64_t epoch = 0; epoch <= kEpochs; ++epoch) {
      while (const std::optional<Batch> batch = loader.next()) requests.push_back(batch->indices);
    }
    return requests;
  }

  static double per_chunk(const std::vector<std::uint64_t>& epochs) {
    return static_cast<double>(std::accumulate(epochs.begin(), epochs.end(), std::uint64_t{0})) / kChunks /
           static_cast<double>(epochs.size());
  }

  SampleSet set_{{.shape = {kSamples, 16, 16}, .chunk_shape = {kRows, 16, 16}, .gzip = 1}};
  Dataset dataset_ = open(set_);
  CapturedLog quiet_;
};

TEST_F(ManyChunks, are_decoded_as_rarely_as_rows_kept_by_foresight_allow) {
  const Requests known = requests();
  const Simulation simulation{kRows, kSamples, known.size() / (kEpochs + 1), kEpochs};
  const double optimum = per_chunk(simulation.belady_rows(known, kHeldRows));
  const double lru = per_chunk(simulation.whole_chunks(known, kChunks / 4, true));
  const double belady = per_chunk(simulation.whole_chunks(known, kChunks / 4, false));

  const double clairvoyant = decodes(CachePolicy::clairvoyant);
  RecordProperty("by_rows", std::to_string(optimum));
  RecordProperty("clairvoyant", std::to_string(clairvoyant));
  EXPECT_LE(clairvoyant, 3.0);
  EXPECT_NEAR(clairvoyant, optimum, optimum * 0.03);
  // Workers prepare several batches at once, which a chunk then serves together.
  const double with_workers = decodes(CachePolicy::clairvoyant, 2);
  RecordProperty("clairvoyant_2_workers", std::to_string(with_workers));
  EXPECT_LE(with_workers, optimum * 1.03);

  // The figures of the other policies, from the same sequence.
  RecordProperty("lru", std::to_string(lru));
  RecordProperty("belady_on_chunks", std::to_string(belady));
  EXPECT_GT(lru, 14);
  EXPECT_GT(belady, 2 * optimum);
  EXPECT_NEAR(decodes(CachePolicy::lru), lru, lru * 0.05);
}

}  // namespace
}  // namespace h5feed
