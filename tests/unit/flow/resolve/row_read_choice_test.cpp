// SPDX-License-Identifier: Apache-2.0
// When rows of uncompressed data are read one by one.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "flow/resolve/advice.hpp"
#include "h5feed/data_loader.hpp"
#include "support/captured_log.hpp"
#include "support/files/sample_set.hpp"

namespace h5feed::test {
namespace {

// Says of no byte that it is in memory.
class ColdSource final : public ByteSource {
 public:
  explicit ColdSource(std::shared_ptr<const ByteSource> source) : source_(std::move(source)) {}
  void read(std::uint64_t offset, std::span<std::byte> out) const override { source_->read(offset, out); }
  bool resident(std::uint64_t) const noexcept override { return false; }
  std::uint64_t size() const noexcept override { return source_->size(); }

 private:
  const std::shared_ptr<const ByteSource> source_;
};

class RowReadChoice : public testing::Test {
 protected:
  static bool rows_direct(const Dataset& dataset, const Shuffle& shuffle, std::uint64_t cache_bytes) {
    return DataLoader(dataset, {.batch_size = 16, .shuffle = shuffle, .cache_bytes = cache_bytes})
        .options()
        .row_reads;
  }

  const test::CapturedLog quiet_;
  // 200 chunks of 20 samples of 4 KiB.
  const SampleSet large_{{.shape = {4000, 64, 64}, .chunk_shape = {20, 64, 64}}};
  const Dataset warm_ = Dataset::open({.files = {large_.path()}, .data = "images"});
  static constexpr std::uint64_t kChunkBytes = 20 * 4096;
};

TEST_F(RowReadChoice, takes_large_rows_of_a_full_shuffle_that_does_not_fit) {
  EXPECT_TRUE(rows_direct(warm_, "full", 50 * kChunkBytes));
  EXPECT_FALSE(rows_direct(warm_, "full", 200 * kChunkBytes)) << "fits: no read in later epochs";
  EXPECT_FALSE(rows_direct(warm_, "sequential", 50 * kChunkBytes));
  EXPECT_FALSE(rows_direct(warm_, "chunk:16", 50 * kChunkBytes));
}

TEST_F(RowReadChoice, leaves_small_rows_to_their_chunks) {
  const SampleSet small({.shape = {4000, 4, 4}, .chunk_shape = {20, 4, 4}});
  const Dataset dataset = Dataset::open({.files = {small.path()}, .data = "images"});
  EXPECT_FALSE(rows_direct(dataset, "full", 50 * 20 * 16)) << "a call costs more than 15 times 16 bytes";
}

TEST_F(RowReadChoice, weighs_random_reads_of_cold_storage_against_whole_chunks) {
  const Dataset cold = DatasetAccess::open({.files = {large_.path()}, .data = "images"}, [](auto source) {
    return std::make_shared<const ColdSource>(source);
  });
  EXPECT_TRUE(rows_direct(cold, "full", 50 * kChunkBytes)) << "each chunk would be read 15 times";
  EXPECT_FALSE(rows_direct(cold, "full", 170 * kChunkBytes)) << "each chunk would be read a few times";
  EXPECT_TRUE(rows_direct(warm_, "full", 170 * kChunkBytes)) << "from memory rows are cheaper all the same";
}

TEST_F(RowReadChoice, sees_whether_a_file_is_in_memory) {
  // Just written: the page cache has it.
  EXPECT_TRUE(DatasetAccess::state(warm_)->data.reader->row_resident(0));
  EXPECT_TRUE(DatasetAccess::state(warm_)->data.reader->row_resident(3999));
}

}  // namespace
}  // namespace h5feed::test
