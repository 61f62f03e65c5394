// SPDX-License-Identifier: Apache-2.0
// What the ranks read together.
#include <gtest/gtest.h>

#include <cstdint>

#include "h5feed/data_loader.hpp"
#include "support/captured_log.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

// 1000 samples in 100 chunks; each rank is a process of its own, so each opens the file for itself.
class ShardReads : public testing::TestWithParam<Uneven> {
 protected:
  static constexpr std::int64_t kRanks = 4;

  // Chunks loaded for each chunk of the data and epoch, by all ranks together.
  double loads(Shard shard, const char* shuffle, std::int64_t workers, int epochs) {
    std::uint64_t loads = 0;
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
      DataLoader loader(open(set_), {.batch_size = 32,
                                     .shuffle = shuffle,
                                     .seed = 3,
                                     .num_workers = workers,
                                     .rank = rank,
                                     .world_size = kRanks,
                                     .shard = shard,
                                     .uneven = GetParam(),
                                     .cache_bytes = 16 * 480});
      std::int64_t samples = 0;
      for (int epoch = 0; epoch < epochs; ++epoch) {
        for (Batch& batch : loader) samples += batch.size();
      }
      EXPECT_EQ(samples, 250 * epochs);
      loads += loader.stats().chunk_loads;
    }
    return static_cast<double>(loads) / 100 / epochs;
  }

  const test::CapturedLog quiet_;
  SampleSet set_{{.shape = {1000, 8, 6}, .chunk_shape = {10, 8, 6}, .gzip = 1}};
};

TEST_P(ShardReads, by_chunk_reads_each_chunk_once) {
  for (const char* shuffle : {"sequential", "chunk:4"}) {
    EXPECT_EQ(loads(Shard::by_chunk, shuffle, 0, 1), 1.0) << shuffle;
    // The first batches of the epoch after the last are prepared, too.
    EXPECT_LE(loads(Shard::by_chunk, shuffle, 2, 20), 1.05) << shuffle;
  }
}

TEST_P(ShardReads, contiguous_shares_only_the_chunks_at_its_edges) {
  EXPECT_LE(loads(Shard::contiguous, "sequential", 0, 1), 1.04);
}

INSTANTIATE_TEST_SUITE_P(Modes, ShardReads, testing::Values(Uneven::exact, Uneven::pad, Uneven::drop),
                         [](const auto& uneven) {
                           return uneven.param == Uneven::exact ? "exact"
                                  : uneven.param == Uneven::pad ? "pad"
                                                                : "drop";
                         });

}  // namespace
}  // namespace h5feed::test
