// SPDX-License-Identifier: Apache-2.0
// gpu_cache_bytes where GPU memory is short: what is given back, and that every batch is delivered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/gpu.hpp"
#include "h5feed/log.hpp"
#include "support/captured_log.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/sample_set.hpp"
#include "support/gpu/gpu_cache_epochs.hpp"
#include "support/gpu/gpu_deliveries.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST(GpuCacheMemory, gives_memory_back_to_the_model) {
  const SampleSet set(small_set());
  const Dataset dataset = open(set);
  const auto expected = epochs_on_cpu(dataset, small_options(0), 6);
  FakeCuda cuda({.memory_bytes = std::size_t{1} << 20});
  DataLoader loader(dataset, small_options(50 * kRowBytes, 2));
  std::vector<Delivery> delivered = epochs_on_gpu(cuda, loader, 2);
  ASSERT_GE(loader.stats().gpu_cache_bytes, 48 * kRowBytes);
  const GpuBuffer model(loader.stats().gpu_memory->free - 8192, 0);
  for (Delivery& delivery : epochs_on_gpu(cuda, loader, 4)) delivered.push_back(std::move(delivery));
  EXPECT_EQ(loader.stats().gpu_cache_bytes, 0u) << "all of it was not enough to fill the reserve";
  EXPECT_TRUE(delivered == expected);
}

TEST(GpuCacheMemory, gives_memory_back_to_a_consumer_that_keeps_batches) {
  const SampleSet set(small_set());
  const Dataset dataset = open(set);
  FakeCuda cuda;
  DataLoader loader(dataset, small_options(50 * kRowBytes));
  epochs_on_gpu(cuda, loader, 2);
  const std::uint64_t before = loader.stats().gpu_cache_bytes;
  cuda.fail_call_of("cudaMalloc", 1, cudaErrorMemoryAllocation);
  std::vector<Batch> kept;
  while (auto batch = loader.next()) kept.push_back(std::move(*batch));
  EXPECT_TRUE(cuda.failed());
  EXPECT_EQ(kept.size(), 8u);
  EXPECT_EQ(loader.stats().errors, 0u);
  EXPECT_LT(loader.stats().gpu_cache_bytes, before);
  EXPECT_GE(loader.stats().gpu_cache_bytes, before - 6 * kRowBytes);
}

// The consumer keeps batches until the GPU is full to the last byte, while workers plan batches of samples in
// all blocks. Three batches of two samples are copied at most, so one of the eight blocks can always be
// freed.
TEST(GpuCacheMemory, frees_memory_of_a_full_gpu_whose_samples_all_are_planned) {
  const SampleSet set({.shape = {400, 16, 16}, .chunk_shape = {5, 16, 16}, .gzip = 1});
  const Dataset dataset = open(set);
  for (const std::int64_t workers : {0, 2, 4}) {
    DataLoaderOptions options = small_options(400 * kRowBytes, workers);
    options.batch_size = 2;
    if (workers > 0) options.prefetch_factor = 40;
    const std::vector<Delivery> expected = epochs_on_cpu(dataset, options, 3);
    FakeCuda cuda({.memory_bytes = std::size_t{1} << 19});
    DataLoader loader(dataset, options);
    std::vector<Delivery> delivered = epochs_on_gpu(cuda, loader, 2);
    const std::uint64_t before = loader.stats().gpu_cache_bytes;
    ASSERT_GE(before, 390 * kRowBytes);
    const GpuBuffer model(loader.stats().gpu_memory->free / 256 * 256, 0);
    GpuReader reader(cuda, 0);
    std::vector<Batch> kept;
    for (int i = 0; i < 200; ++i) {
      if (kept.size() == 20) kept.clear();
      auto batch = loader.next();
      ASSERT_TRUE(batch);
      reader.read(*batch);
      kept.push_back(std::move(*batch));
    }
    for (Delivery& delivery : reader.wait()) delivered.push_back(std::move(delivery));
    EXPECT_TRUE(delivered == expected) << workers;
    EXPECT_EQ(loader.stats().errors, 0u);
    EXPECT_LT(loader.stats().gpu_cache_bytes, before);
  }
}

TEST(GpuCacheMemory, makes_room_for_an_allocator_that_asks_for_it) {
  const SampleSet set(small_set());
  const Dataset dataset = open(set);
  FakeCuda cuda({.memory_bytes = std::size_t{1} << 17});
  DataLoader loader(dataset, small_options(50 * kRowBytes));
  epochs_on_gpu(cuda, loader, 2);
  const std::uint64_t before = loader.stats().gpu_cache_bytes;
  gpu::keep_memory_free(0);
  EXPECT_EQ(loader.stats().gpu_cache_bytes, before) << "there is enough";
  const GpuBuffer model(loader.stats().gpu_memory->free - 3000, 0);
  gpu::keep_memory_free(0);
  EXPECT_LT(loader.stats().gpu_cache_bytes, before);
  EXPECT_GE(loader.stats().gpu_memory->free, (std::size_t{1} << 17) / 16);
}

TEST(GpuCacheMemory, leaves_other_gpus_alone) {
  const SampleSet set(small_set());
  const Dataset dataset = open(set);
  FakeCuda cuda({.devices = 2, .memory_bytes = std::size_t{1} << 17});
  DataLoader loader(dataset, on_gpu(small_options(50 * kRowBytes), "cuda:1"));
  for (int epoch = 0; epoch < 2; ++epoch) rest_of_gpu_epoch(cuda, loader, 1);
  const std::uint64_t before = loader.stats().gpu_cache_bytes;
  const GpuBuffer model(loader.stats().gpu_memory->free - 3000, 1);
  gpu::keep_memory_free(0);
  EXPECT_EQ(loader.stats().gpu_cache_bytes, before);
  gpu::keep_memory_free(1);
  EXPECT_LT(loader.stats().gpu_cache_bytes, before);
}

TEST(GpuCacheMemory, holds_all_samples_of_any_size_where_there_is_room) {
  for (const std::uint64_t width : {28u, 100u, 16u}) {
    const SampleSet set({.shape = {100, 1, width}, .chunk_shape = {5, 1, width}, .gzip = 1});
    const Dataset dataset = open(set);
    FakeCuda cuda;
    DataLoader loader(dataset, small_options(std::uint64_t{1} << 24));
    epochs_on_gpu(cuda, loader, 1);
    const std::uint64_t loads = loader.stats().chunk_loads;
    epochs_on_gpu(cuda, loader, 2);
    EXPECT_EQ(loader.stats().gpu_cache_hits, 200u) << width;
    EXPECT_EQ(loader.stats().chunk_loads, loads) << width;
  }
}

TEST(GpuCacheMemory, warns_of_a_size_below_that_of_a_sample) {
  const SampleSet set(small_set());
  const FakeCuda cuda;
  const CapturedLog log;
  const DataLoader loader(open(set), small_options(100));
  EXPECT_THAT(log.lines(), Contains(HasSubstr("gpu_cache_bytes: 100 B do not hold one sample of 256 B")));
}

TEST(GpuCacheMemory, is_used_by_a_loader_whose_log_throws) {
  const SampleSet set(small_set());
  const Dataset dataset = open(set);
  const FakeCuda cuda;
  set_log_sink([](LogLevel, std::string_view line) {
    if (line.starts_with("gpu_cache_bytes")) throw std::runtime_error("no log");
  });
  DataLoader loader(dataset, small_options(100));
  EXPECT_TRUE(loader.next());
  set_log_sink({});
  gpu::keep_memory_free(0);
}

}  // namespace
}  // namespace h5feed::test
