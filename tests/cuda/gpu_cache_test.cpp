// SPDX-License-Identifier: Apache-2.0
// gpu_cache_bytes: samples that stay on the GPU. The same bytes as on the CPU, and no work on the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "h5feed/gpu.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/sample_set.hpp"
#include "support/gpu/gpu_cache_epochs.hpp"
#include "support/gpu/gpu_deliveries.hpp"
#include "support/gpu/on_gpu.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  std::int64_t number(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random_);
  }
  bool chance() { return number(0, 1) == 1; }

 private:
  std::mt19937 random_;
};

DataLoaderOptions random_options(Draw& draw, DType stored) {
  DataLoaderOptions options{.batch_size = draw.number(1, 12)};
  options.drop_last = draw.chance();
  options.num_workers = draw.number(0, 2);
  options.seed = static_cast<std::uint64_t>(draw.number(0, 100));
  options.shuffle =
      std::array<Shuffle, 3>{false, true, "chunk:3"}[static_cast<std::size_t>(draw.number(0, 2))];
  options.echo.factor = draw.number(0, 2) == 0 ? 2 : 1;
  options.world_size = draw.number(1, 2);
  options.rank = options.world_size - 1;
  options.shard = std::array{Shard::strided, Shard::contiguous,
                             Shard::by_chunk}[static_cast<std::size_t>(draw.number(0, 2))];
  options.uneven =
      std::array{Uneven::exact, Uneven::pad, Uneven::drop}[static_cast<std::size_t>(draw.number(0, 2))];
  options.cache_policy = std::array{CachePolicy::lru, CachePolicy::clairvoyant,
                                    CachePolicy::keep_first}[static_cast<std::size_t>(draw.number(0, 2))];
  if (draw.chance()) options.cache_bytes = 2000;
  if (draw.chance()) options.normalize = Normalize{.mean = {0.4}, .std = {0.3}};
  if (draw.chance()) options.output_dtype = draw.chance() ? DType::f16 : DType::f32;
  if (draw.chance()) options.output_layout = OutputLayout::channels_last;
  if (draw.chance() && stored != DType::i32) {
    options.augment = Augment{.horizontal_flip = 0.5,
                              .random_crop = Augment::RandomCrop{.height = 5, .width = 4, .padding = 2}};
    if (stored == DType::f32) options.output_dtype = DType::f16;
  }
  if (draw.number(0, 3) == 0 && stored != DType::i32) {
    options.augment = Augment{.vertical_flip = 0.5,
                              .random_resized_crop = Augment::RandomResizedCrop{.height = 3, .width = 8}};
    if (stored == DType::f32) options.output_dtype = DType::f16;
  }
  if (draw.chance()) options.output_memory = OutputMemory::consumer;
  options.copy_depth = draw.number(1, 3);
  switch (draw.number(0, 2)) {
    case 0:
      options.gpu_cache_bytes = "auto";
      break;
    case 1:
      options.gpu_cache_bytes = draw.number(0, 8000);
      break;
    default:
      options.gpu_cache_bytes = 1 << 20;
  }
  return options;
}

// Three epochs without the cache: on the CPU, except for floats, which GPU and CPU round differently.
std::vector<Delivery> expected_of(FakeCuda& cuda, const Dataset& dataset, DataLoaderOptions options,
                                  DType stored) {
  options.gpu_cache_bytes = 0;
  if (stored != DType::f32) return epochs_on_cpu(dataset, options, 3);
  DataLoader loader(dataset, on_gpu(options));
  return epochs_on_gpu(cuda, loader, 3);
}

TEST(GpuCache, delivers_what_it_would_without_it_for_any_options) {
  const SampleSet chunked(rgb_set()), rows_in_file({.shape = {41, 3, 6, 5}}), real(rgb_set(DType::f32)),
      by_the_cpu(rgb_set(DType::i32)),
      in_pieces({.shape = {30, 7, 6, 3}, .chunk_shape = {4, 3, 4, 3}, .gzip = 1});
  const std::array<const SampleSet*, 5> sets = {&chunked, &rows_in_file, &real, &by_the_cpu, &in_pieces};
  const std::array<DType, 5> types = {DType::u8, DType::u8, DType::f32, DType::i32, DType::u8};
  std::uint64_t hits = 0;
  int tried = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    Draw draw(seed);
    const std::size_t which = seed % sets.size();
    const Dataset dataset = open(*sets[which]);
    const DataLoaderOptions options = random_options(draw, types[which]);
    if (refusal<OptionError>(dataset, options) != "accepted") continue;  // e.g. more chunks than there are
    ++tried;
    FakeCuda cuda({.memory_bytes = std::size_t{4} << 20, .seed = seed});
    {
      DataLoader loader(dataset, on_gpu(options));
      EXPECT_TRUE(epochs_on_gpu(cuda, loader, 3) == expected_of(cuda, dataset, options, types[which]))
          << seed;
      hits += loader.stats().gpu_cache_hits;
      EXPECT_EQ(loader.stats().gpu_memory->loader, cuda.live().device_bytes) << seed;
    }
    EXPECT_EQ(cuda.live(), FakeCudaLive{}) << seed;
  }
  EXPECT_GE(tried, 15);
  EXPECT_GT(hits, 500u);
}

TEST(GpuCache, that_holds_all_samples_leaves_the_host_nothing_to_do) {
  const SampleSet set(small_set());
  const Dataset dataset = open(set);
  for (const std::int64_t workers : {0, 2}) {
    for (const char* const shuffle : {"full", "chunk:2", "sequential"}) {
      FakeCuda cuda;
      DataLoaderOptions options = small_options(1 << 20, workers);
      options.shuffle = shuffle;
      options.cache_bytes = 8 * 5 * kRowBytes;  // of ten chunks eight, so that workers look ahead
      DataLoader loader(dataset, options);
      // Workers plan the first batches of the second epoch before the last ones of the first are copied.
      epochs_on_gpu(cuda, loader, 2);
      const LoaderStats before = loader.stats();
      EXPECT_GE(before.bytes_decoded, 50 * kRowBytes);
      const std::uint64_t bytes = cuda.pinned_copy_bytes();
      constexpr std::uint64_t kEpochs = 3;
      EXPECT_EQ(epochs_on_gpu(cuda, loader, kEpochs).size(), kEpochs * 8);
      const LoaderStats after = loader.stats();
      EXPECT_EQ(after.gpu_cache_hits - before.gpu_cache_hits, kEpochs * 50);
      EXPECT_EQ(after.bytes_read, before.bytes_read) << shuffle;
      EXPECT_EQ(after.bytes_decoded, before.bytes_decoded);
      EXPECT_EQ(after.rows_direct, before.rows_direct);
      EXPECT_EQ(after.cache_hits, before.cache_hits);
      EXPECT_LT((cuda.pinned_copy_bytes() - bytes) / (kEpochs * 8), 1024u) << "labels and addresses";
      EXPECT_EQ(after.gpu_cache_bytes, before.gpu_cache_bytes);
      EXPECT_GE(after.gpu_cache_bytes, 50 * kRowBytes);
      EXPECT_THAT(loader.report(), HasSubstr("\nGPU cache: "));
    }
  }
}

TEST(GpuCache, of_part_of_the_samples_serves_as_many_in_every_epoch_and_copies_the_others) {
  const SampleSet set(small_set());
  const Dataset dataset = open(set);
  FakeCuda cuda;
  DataLoader loader(dataset, small_options(20 * kRowBytes));
  const auto expected = epochs_on_cpu(dataset, small_options(0), 3);
  std::vector<Delivery> delivered = epochs_on_gpu(cuda, loader, 1);
  EXPECT_EQ(loader.stats().gpu_cache_hits, 0u);
  for (std::uint64_t epoch = 1; epoch < 3; ++epoch) {
    const std::uint64_t bytes = cuda.pinned_copy_bytes();
    for (Delivery& delivery : epochs_on_gpu(cuda, loader, 1)) delivered.push_back(std::move(delivery));
    EXPECT_EQ(loader.stats().gpu_cache_hits, epoch * 20);
    const std::uint64_t copied = cuda.pinned_copy_bytes() - bytes;
    EXPECT_GE(copied, 30 * kRowBytes);
    EXPECT_LT(copied, 30 * kRowBytes + 8 * 1024) << "30 samples, and what is in front of them in 8 batches";
  }
  EXPECT_EQ(loader.stats().gpu_cache_bytes, 20 * kRowBytes);
  EXPECT_TRUE(delivered == expected);
  EXPECT_THAT(loader.report(), HasSubstr("GPU cache: 26.7 % of the samples were on the GPU, 5 KiB taken"));
}

TEST(GpuCache, of_size_auto_takes_what_is_free_after_the_first_batches) {
  const SampleSet set(small_set());
  const Dataset dataset = open(set);
  FakeCuda cuda({.memory_bytes = std::size_t{4} << 20});
  DataLoader loader(dataset, small_options("auto"));
  epochs_on_gpu(cuda, loader, 2);
  EXPECT_EQ(loader.stats().gpu_cache_bytes, 0u) << "16 batches";
  epochs_on_gpu(cuda, loader, 1);
  EXPECT_GE(loader.stats().gpu_cache_bytes, 50 * kRowBytes);
  epochs_on_gpu(cuda, loader, 1);
  EXPECT_EQ(loader.stats().gpu_cache_hits, 50u);
}

TEST(GpuCache, goes_on_with_what_it_has_where_memory_runs_out) {
  const SampleSet set(small_set());
  const Dataset dataset = open(set);
  const auto expected = epochs_on_cpu(dataset, small_options(0), 3);
  for (std::uint64_t allocation = 1; allocation < 5; ++allocation) {
    FakeCuda cuda;
    {
      DataLoader loader(dataset, small_options(50 * kRowBytes));
      cuda.fail_call_of("cudaMalloc", allocation, cudaErrorMemoryAllocation);
      EXPECT_TRUE(epochs_on_gpu(cuda, loader, 3) == expected);
      EXPECT_TRUE(cuda.failed());
      // A block holds six samples.
      EXPECT_EQ(loader.stats().gpu_cache_bytes, (allocation - 1) * 6 * kRowBytes);
      EXPECT_EQ(loader.stats().gpu_cache_hits, 2 * (allocation - 1) * 6);
      EXPECT_EQ(loader.stats().errors, 0u);
    }
    EXPECT_EQ(cuda.live(), FakeCudaLive{});
  }
}

TEST(GpuCache, serves_no_sample_whose_copy_failed) {
  const SampleSet set(small_set());
  const Dataset dataset = open(set);
  const auto expected = epochs_on_cpu(dataset, small_options(0), 2);
  int failed = 0;
  for (std::uint64_t call = 1; call <= 60; call += 3) {
    FakeCuda cuda;
    {
      DataLoader loader(dataset, small_options(50 * kRowBytes));
      GpuReader reader(cuda, 0);
      cuda.fail_call(call, cudaErrorLaunchOutOfResources);
      for (int epoch = 0; epoch < 2;) {
        try {
          const auto batch = loader.next();
          if (batch) reader.read(*batch);
          if (!batch) ++epoch;
        } catch (const DeviceError&) {
          ++failed;
        }
      }
      EXPECT_TRUE(cuda.failed()) << call;
      for (const Delivery& delivery : reader.wait())
        EXPECT_TRUE(delivery == expected[delivery.epoch * 8 + delivery.number]) << call;
      EXPECT_GE(loader.stats().gpu_cache_hits, 36u) << call;
    }
    EXPECT_EQ(cuda.live(), FakeCudaLive{}) << call;
  }
  EXPECT_GT(failed, 10);
}

TEST(GpuCache, keeps_the_shard_of_its_rank_where_that_stays_the_same) {
  const SampleSet set(small_set());
  const Dataset dataset = open(set);
  FakeCuda cuda({.devices = 2});
  {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::byte>> together;
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      DataLoaderOptions options = small_options(26 * kRowBytes);
      options.shuffle = false;
      options.world_size = 2;
      options.rank = rank;
      const int gpu = static_cast<int>(rank);
      DataLoader loader(dataset, on_gpu(options, "cuda:" + std::to_string(gpu)));
      rest_of_gpu_epoch(cuda, loader, gpu);
      together.merge(by_sample(rest_of_gpu_epoch(cuda, loader, gpu)));
      EXPECT_EQ(loader.stats().gpu_cache_hits, 25u);
    }
    EXPECT_TRUE(together == by_sample(epochs_on_cpu(dataset, small_options(0), 1)));
  }
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

TEST(GpuCache, stays_over_resuming_and_chosen_and_abandoned_epochs) {
  const SampleSet set(small_set());
  const Dataset dataset = open(set);
  DataLoaderOptions on_cpu = small_options(0);
  on_cpu.device = "cpu";
  FakeCuda cuda;
  DataLoader loader(dataset, small_options(40 * kRowBytes, 2)), expected(dataset, on_cpu);
  epochs_on_gpu(cuda, loader, 1);
  LoaderState state;
  loader.set_epoch(4);
  for (int batch = 0; batch < 3; ++batch) loader.next();
  state = loader.state();
  loader.start_epoch();  // abandons epoch 4
  loader.next();
  loader.restore(state);
  expected.restore(state);
  EXPECT_TRUE(rest_of_gpu_epoch(cuda, loader) == rest_of_epoch(expected));
  EXPECT_GT(loader.stats().gpu_cache_hits, 0u);
  EXPECT_LE(loader.stats().gpu_cache_bytes, 40 * kRowBytes);
}

TEST(GpuCache, fills_memory_of_the_consumer) {
  const SampleSet set(small_set());
  const Dataset dataset = open(set);
  const auto expected = epochs_on_cpu(dataset, small_options(0), 3);
  FakeCuda cuda;
  DataLoader loader(dataset, small_options(30 * kRowBytes, 1));
  GpuReader reader(cuda, 0);
  std::vector<Delivery> delivered;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const GpuBuffer data(7 * 256 * sizeof(float), 0), target(7 * sizeof(std::int64_t), 0);
    while (const auto batch = loader.next_into([&](int, const DeviceTensors&) {
      return DeviceOutput{data.get(), target.get(), reader.stream()};
    })) {
      reader.read(*batch);
    }
    for (Delivery& delivery : reader.wait()) delivered.push_back(std::move(delivery));
  }
  EXPECT_TRUE(delivered == expected);
  EXPECT_GE(loader.stats().gpu_cache_hits, 30u);
}

TEST(GpuCache, has_a_size_in_bytes_or_auto) {
  const auto size_of_cache = [](auto size) {
    return DataLoaderOptions{.gpu_cache_bytes = size}.gpu_cache_bytes;
  };
  EXPECT_FALSE(size_of_cache(0).enabled());
  EXPECT_EQ(size_of_cache(std::uint64_t{1} << 40).bytes(), std::uint64_t{1} << 40);
  EXPECT_TRUE(size_of_cache("auto").automatic());
  EXPECT_TRUE(size_of_cache(std::string("auto")).enabled());
  EXPECT_THAT(refusal_of<OptionError>([&] { size_of_cache(-1); }),
              HasSubstr("gpu_cache_bytes is negative; use a number of bytes, 0 for none, or \"auto\""));
  EXPECT_THAT(refusal_of<OptionError>([&] { size_of_cache("all"); }),
              HasSubstr("gpu_cache_bytes \"all\" is not a size; use a number of bytes, or \"auto\""));
}

TEST(GpuCache, does_not_go_with_crops_of_the_cpu) {
  const SampleSet set(rgb_set(DType::i32));
  FakeCuda cuda;
  DataLoaderOptions options;
  options.augment = Augment{.horizontal_flip = 0.5};
  options.gpu_cache_bytes = 1000;
  EXPECT_THAT(
      refusal<OptionError>(open(set), on_gpu(options)),
      HasSubstr(
          "gpu_cache_bytes with augment on a GPU needs a conversion that the GPU does, not i32 to i32"));
  EXPECT_EQ(refusal<OptionError>(open(set), options), "accepted") << "no effect on the CPU";
}

}  // namespace
}  // namespace h5feed::test
