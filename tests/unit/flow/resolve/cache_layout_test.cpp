// SPDX-License-Identifier: Apache-2.0
// How the cache's bytes are divided, and which orders decode chunks again.
#include "flow/resolve/cache_layout.hpp"

#include <gtest/gtest.h>

#include "base/byte_units.hpp"
#include "cache/row_cache.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

// Images in 10 chunks of 4,000 bytes, and a field of 80 MiB, too large to be held in memory, in chunks of 2
// MiB.
class CacheLayouts : public testing::Test {
 protected:
  CacheLayouts() {
    H5TestFile file(dir_ / "x.h5");
    file.create({.path = "images", .shape = {40, 20, 50}, .chunk = {4, 20, 50}, .filters = {gzip_filter(1)}});
    file.create(
        {.path = "masks", .shape = {40, 1024, 2048}, .chunk = {1, 1024, 2048}, .filters = {gzip_filter(1)}});
  }

  Dataset open(bool with_field) const {
    DatasetOptions options{.files = {dir_ / "x.h5"}, .data = "images"};
    if (with_field) options.fields = {{.name = "masks", .data = "masks"}};
    return Dataset::open(options);
  }
  static CacheLayout layout(const Dataset& dataset, CachePolicy policy) {
    return cache_layout(*DatasetAccess::state(dataset),
                        {.cache_bytes = 16 * kMiB, .cache_policy = policy, .concurrent_decodes = 3});
  }

  TempDir dir_;
};

constexpr std::uint64_t kImageChunk = 4000, kMaskChunk = 2 * kMiB;

TEST_F(CacheLayouts, keep_room_for_what_is_being_decoded) {
  EXPECT_EQ(layout(open(false), CachePolicy::lru).chunk_bytes, 16 * kMiB);
  EXPECT_EQ(layout(open(false), CachePolicy::keep_first).chunk_bytes, 16 * kMiB);
  EXPECT_EQ(layout(open(false), CachePolicy::keep_first).staying_bytes, 16 * kMiB - 3 * kImageChunk);
  EXPECT_EQ(layout(open(true), CachePolicy::keep_first).staying_bytes, 16 * kMiB - 3 * kMaskChunk);
  EXPECT_EQ(layout(open(false), CachePolicy::clairvoyant).chunk_bytes, 3 * kImageChunk);
  EXPECT_EQ(layout(open(false), CachePolicy::clairvoyant).samples,
            16 * kMiB / (1000 + RowCache::kBookkeepingBytes));
}

TEST_F(CacheLayouts, tell_which_orders_decode_chunks_again) {
  const Dataset dataset = open(false);
  const auto again = [&](const Shuffle& shuffle, bool sampled, std::uint64_t cache_bytes) {
    return decodes_again(*DatasetAccess::state(dataset),
                         {.shuffle = shuffle, .sampled = sampled, .chunks_of_all_ranks = 10}, cache_bytes);
  };
  EXPECT_TRUE(again("full", false, 9 * kImageChunk));
  EXPECT_FALSE(again("full", false, 10 * kImageChunk));
  EXPECT_FALSE(again("chunk:2", false, 9 * kImageChunk));
  EXPECT_FALSE(again("sequential", false, 0));
  EXPECT_TRUE(again("sequential", true, 9 * kImageChunk));
  EXPECT_FALSE(decodes_again(*DatasetAccess::state(dataset),
                             {.shuffle = "full", .chunks_of_all_ranks = 10, .row_reads = true}, 0));
}

TEST_F(CacheLayouts, count_all_chunks_of_other_fields) {
  const ResolvedOptions options{.chunks_of_all_ranks = 5};
  EXPECT_EQ(cached_data_bytes(*DatasetAccess::state(open(false)), options), 5 * kImageChunk);
  EXPECT_EQ(cached_data_bytes(*DatasetAccess::state(open(true)), options), 5 * kImageChunk + 40 * kMaskChunk);
}

}  // namespace
}  // namespace h5feed::test
