// What the ranks read together.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "support/captured_log.hpp"
#include "support/loader_cases.hpp"
#include "support/sample_set.hpp"

namespace h5feed {
namespace {

using test::open;
using test::SampleSet;

// 1000 samples in 100 chunks; each rank is a process of its own, so each opens the file for itself. The
// caches hold 4 chunks.
class ShardReads : public testing::TestWithParam<Uneven> {
 protected:
  static constexpr std::int64_t kRanks = 4;

  std::uint64_t loads(Shard shard, const char* shuffle) {
    std::uint64_t loads = 0;
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
      DataLoader loader(open(set_), {.batch_size = 32,
                                     .shuffle = shuffle,
                                     .num_workers = 2,
                                     .seed = 3,
                                     .rank = rank,
                                     .world_size = kRanks,
                                     .shard = shard,
                                     .uneven = GetParam(),
                                     .cache_bytes = 4 * 480});
      for (Batch& batch : loader) samples_[rank] += batch.size();
      loads += loader.stats().chunk_loads;
    }
    return loads;
  }

  const test::CapturedLog quiet_;
  SampleSet set_{{.shape = {1000, 8, 6}, .chunk_shape = {10, 8, 6}, .gzip = 1}};
  std::map<std::int64_t, std::int64_t> samples_;
};

TEST_P(ShardReads, by_chunk_reads_each_chunk_once) {
  for (const char* shuffle : {"sequential", "chunk:4"}) {
    const double per_chunk = static_cast<double>(loads(Shard::by_chunk, shuffle)) / 100;
    EXPECT_LE(per_chunk, 1.05) << shuffle;
    EXPECT_GE(per_chunk, GetParam() == Uneven::drop ? 0.9 : 1.0) << shuffle;
  }
  for (const auto& [rank, samples] : samples_) EXPECT_EQ(samples, 2 * 250) << rank;
}

TEST_P(ShardReads, contiguous_shares_only_the_chunks_at_its_edges) {
  EXPECT_LE(loads(Shard::contiguous, "sequential"), 100u + kRanks);
}

INSTANTIATE_TEST_SUITE_P(Modes, ShardReads, testing::Values(Uneven::exact, Uneven::pad, Uneven::drop));

}  // namespace
}  // namespace h5feed
