// SPDX-License-Identifier: Apache-2.0
// gpu_cache_bytes for part of the samples: which of them stay, and that replacing them changes no value.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "h5feed/data_loader.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/sample_set.hpp"
#include "support/gpu/gpu_deliveries.hpp"
#include "support/gpu/on_gpu.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

constexpr std::uint64_t kSamples = 640, kRowBytes = 16;  // of which blocks are filled by 16

SampleSetSpec many_small() { return {.shape = {kSamples, 4, 4}, .chunk_shape = {20, 4, 4}, .gzip = 1}; }

DataLoaderOptions options_of(std::uint64_t cached_samples, std::int64_t workers = 0) {
  DataLoaderOptions options{.batch_size = 10, .shuffle = true, .seed = 5, .num_workers = workers};
  options.cache_bytes = 0;
  options.normalize = Normalize{};
  options.gpu_cache_bytes = cached_samples * kRowBytes;
  return options;
}

// Reads epochs on a GPU and on the CPU, compares them, and counts the samples that were on the GPU.
class GpuReplacement : public testing::Test {
 protected:
  void start(const DataLoaderOptions& options) {
    on_gpu_.emplace(dataset_, on_gpu(options));
    on_cpu_.emplace(dataset_, options);
  }

  void read_epochs(int epochs) {
    for (int epoch = 0; epoch < epochs; ++epoch)
      EXPECT_TRUE(rest_of_gpu_epoch(cuda_, *on_gpu_) == rest_of_epoch(*on_cpu_)) << "epoch " << epoch;
  }

  std::uint64_t hits() const { return on_gpu_->stats().gpu_cache_hits; }

  // Returns how many samples were on the GPU in an epoch, on average after the first two.
  double hits_per_epoch(const DataLoaderOptions& options) {
    start(options);
    read_epochs(2);
    const std::uint64_t before = hits();
    constexpr int kMeasured = 4;
    read_epochs(kMeasured);
    return static_cast<double>(hits() - before) / kMeasured;
  }

  const SampleSet set_{many_small()};
  const Dataset dataset_ = open(set_);
  FakeCuda cuda_;
  std::optional<DataLoader> on_gpu_;
  std::optional<DataLoader> on_cpu_;
};

DataLoaderOptions rank_of(std::int64_t ranks, std::uint64_t cached_samples, std::int64_t workers = 0) {
  DataLoaderOptions options = options_of(cached_samples, workers);
  options.world_size = ranks;
  options.rank = ranks - 1;
  return options;
}

// A rank of two has 320 samples in an epoch, 160 of which also in the next one. The first 64 samples, kept
// for good, would serve 32.
TEST_F(GpuReplacement, keeps_for_a_rank_what_its_shard_will_need) {
  DataLoaderOptions options = rank_of(2, 64);
  for (const Shard shard : {Shard::strided, Shard::contiguous}) {
    options.shard = shard;
    const double served = hits_per_epoch(options);
    EXPECT_GE(served, 56) << static_cast<int>(shard);
    EXPECT_LE(served, 64) << "as many as there are rows when an epoch begins";
  }
  options.shard = Shard::by_chunk;
  EXPECT_EQ(hits_per_epoch(options), 32) << "chunks come back in every other epoch only";
}

// A rank of four has 160 samples in an epoch, 40 of which also in the next one. Of 128 samples, kept for
// good, 32 would be served.
TEST_F(GpuReplacement, serves_nearly_all_that_comes_twice_in_a_row_where_it_has_room) {
  EXPECT_GE(hits_per_epoch(rank_of(4, 128)), 48);
}

TEST_F(GpuReplacement, keeps_what_comes_again_with_any_host_cache_and_workers) {
  for (const CachePolicy policy : {CachePolicy::lru, CachePolicy::clairvoyant, CachePolicy::keep_first}) {
    DataLoaderOptions options = rank_of(2, 64, 2);
    options.cache_policy = policy;
    options.cache_bytes = kSamples * kRowBytes / 4;
    EXPECT_GE(hits_per_epoch(options), 45) << static_cast<int>(policy);
  }
}

// Every sample comes once per epoch: what is served was there when the epoch began.
TEST_F(GpuReplacement, of_one_rank_serves_as_many_as_it_has_room_for_and_copies_none_in_vain) {
  for (const char* const shuffle : {"full", "chunk:4"}) {
    DataLoaderOptions options = options_of(192);
    options.shuffle = shuffle;
    EXPECT_EQ(hits_per_epoch(options), 192) << shuffle;
  }
}

TEST_F(GpuReplacement, changes_no_value_of_repeats_or_in_memory_of_the_consumer) {
  DataLoaderOptions options = rank_of(2, 64, 2);
  options.echo.factor = 2;
  options.output_memory = OutputMemory::consumer;
  start(options);
  GpuReader reader(cuda_, 0);
  for (int epoch = 0; epoch < 4; ++epoch) {
    const GpuBuffer data(10 * kRowBytes * sizeof(float), 0), target(10 * sizeof(std::int64_t), 0);
    while (const auto batch = on_gpu_->next_into([&](int, const DeviceTensors&) {
      return DeviceOutput{data.get(), target.get(), reader.stream()};
    })) {
      reader.read(*batch);
    }
    EXPECT_TRUE(reader.wait() == rest_of_epoch(*on_cpu_)) << "epoch " << epoch;
  }
  EXPECT_GE(hits(), 3u * 40);
}

TEST_F(GpuReplacement, changes_no_value_after_a_jump_and_serves_as_many_soon_after) {
  for (const std::int64_t workers : {0, 2}) {
    start(rank_of(2, 64, workers));
    read_epochs(2);
    for (const std::uint64_t epoch : {7u, 3u}) {
      on_gpu_->set_epoch(epoch);
      for (int batch = 0; batch < 15; ++batch) on_gpu_->next();
      const LoaderState state = on_gpu_->state();
      on_gpu_->set_epoch(1);
      on_gpu_->start_epoch();
      on_gpu_->next();
      on_gpu_->restore(state);
      on_cpu_->restore(state);
      read_epochs(2);
    }
    const std::uint64_t before = hits();
    read_epochs(2);
    EXPECT_GE(hits() - before, 2u * 45);
  }
}

}  // namespace
}  // namespace h5feed::test
