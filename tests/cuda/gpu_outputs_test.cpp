// SPDX-License-Identifier: Apache-2.0
// Types, layouts, crops and echoes of the loader on a GPU: the bytes of the CPU, and one copy a batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "h5feed/gpu.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/sample_set.hpp"
#include "support/gpu/gpu_deliveries.hpp"
#include "support/gpu/on_gpu.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

Augment augment() {
  return {.horizontal_flip = 0.5,
          .vertical_flip = 0.5,
          .random_crop = Augment::RandomCrop{.height = 5, .width = 7, .padding = 2}};
}

struct OutputCase {
  const char* name;
  DType stored = DType::u8;
  bool normalize = true;
  std::optional<DType> output_dtype = {};
  OutputLayout layout = OutputLayout::nchw;
  bool augment = false;
  std::int64_t echo = 1;
};

class GpuOutputs : public testing::TestWithParam<OutputCase> {};

TEST_P(GpuOutputs, are_those_of_the_cpu_byte_for_byte) {
  const OutputCase& c = GetParam();
  const SampleSet set(rgb_set(c.stored));
  const Dataset dataset = open(set);
  DataLoaderOptions options{.batch_size = 7, .shuffle = true, .seed = 6};
  if (c.normalize) options.normalize = Normalize{.mean = {0.3, 0.4, 0.5}, .std = {0.25}};
  options.output_dtype = c.output_dtype;
  options.output_layout = c.layout;
  if (c.augment) options.augment = augment();
  options.echo = {.factor = c.echo};
  DataLoader on_cpu(dataset, options);
  const std::vector<Delivery> expected = rest_of_epoch(on_cpu);
  for (const int workers : {0, 2}) {
    FakeCuda cuda({.seed = static_cast<unsigned>(workers + 1)});
    options.num_workers = workers;
    {
      DataLoader loader(dataset, on_gpu(options));
      EXPECT_TRUE(rest_of_gpu_epoch(cuda, loader) == expected) << workers << " workers";
    }
    EXPECT_EQ(cuda.live(), FakeCudaLive{});
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GpuOutputs,
    testing::Values(
        OutputCase{.name = "f16", .output_dtype = DType::f16},
        OutputCase{
            .name = "bf16_channels_last", .output_dtype = DType::bf16, .layout = OutputLayout::channels_last},
        OutputCase{.name = "cast_only", .normalize = false, .output_dtype = DType::f32},
        OutputCase{.name = "u8_transposed", .normalize = false},
        OutputCase{.name = "u8_as_stored", .normalize = false, .layout = OutputLayout::channels_last},
        OutputCase{.name = "u8_augmented", .normalize = false, .augment = true},
        OutputCase{.name = "augmented", .augment = true},
        OutputCase{.name = "augmented_f16_channels_last",
                   .output_dtype = DType::f16,
                   .layout = OutputLayout::channels_last,
                   .augment = true},
        OutputCase{.name = "f64_by_the_cpu", .output_dtype = DType::f64, .augment = true},
        OutputCase{.name = "i32_by_the_cpu",
                   .stored = DType::i32,
                   .layout = OutputLayout::channels_last,
                   .augment = true},
        OutputCase{.name = "echoed", .echo = 3},
        OutputCase{
            .name = "echoed_as_stored", .normalize = false, .layout = OutputLayout::channels_last, .echo = 2},
        OutputCase{.name = "echoed_and_augmented", .augment = true, .echo = 3}),
    [](const auto& c) { return std::string(c.param.name); });

TEST(GpuTransform, changes_samples_as_on_the_cpu) {
  const SampleSet set(rgb_set());
  const Dataset dataset = open(set);
  DataLoaderOptions options{.batch_size = 7, .shuffle = true, .seed = 6};
  options.normalize = Normalize{};
  options.augment = augment();
  options.transform = [](const SampleView& sample, const SampleKey& key) {
    for (std::uint8_t& value : sample.as<std::uint8_t>())
      value = static_cast<std::uint8_t>(value + key.random(0));
  };
  DataLoader on_cpu(dataset, options);
  const std::vector<Delivery> expected = rest_of_epoch(on_cpu);
  FakeCuda cuda;
  for (const std::int64_t workers : {0, 2}) {
    options.num_workers = workers;
    DataLoader loader(dataset, on_gpu(options));
    EXPECT_TRUE(rest_of_gpu_epoch(cuda, loader) == expected) << workers << " workers";
  }
  options.echo = {.factor = 2};
  EXPECT_THAT(refusal<OptionError>(dataset, on_gpu(options)),
              HasSubstr("transform cannot be used with echo on a GPU"));
  options.echo = {};
  options.gpu_cache_bytes = "auto";
  EXPECT_THAT(refusal<OptionError>(dataset, on_gpu(options)),
              HasSubstr("transform cannot be used with gpu_cache_bytes on a GPU"));
}

TEST(GpuEcho, copies_each_batch_once_however_often_it_is_served) {
  const SampleSet set(rgb_set());
  const Dataset dataset = open(set);
  struct Traffic {
    std::uint64_t copies = 0, bytes = 0;
  };
  const auto traffic = [&](std::int64_t factor) {
    FakeCuda cuda;
    DataLoaderOptions options{.batch_size = 10};  // without workers that begin the next epoch
    options.normalize = Normalize{};
    options.augment = augment();
    options.echo = {.factor = factor};
    DataLoader loader(dataset, on_gpu(options));
    EXPECT_EQ(rest_of_gpu_epoch(cuda, loader).size(), 5 * static_cast<std::size_t>(factor));
    return Traffic{cuda.pinned_copies(), cuda.pinned_copy_bytes()};
  };
  const Traffic once = traffic(1);
  const Traffic four_times = traffic(4);
  EXPECT_EQ(once.copies, 5u) << "data, labels and crops together; five batches";
  EXPECT_EQ(four_times.copies, once.copies);
  EXPECT_GT(four_times.bytes, once.bytes) << "where to crop";
  EXPECT_LT(four_times.bytes - once.bytes, 50 * set.sample_bytes()) << "no pixel";
}

TEST(GpuEcho, resumes_between_deliveries) {
  const SampleSet set(rgb_set());
  const Dataset dataset = open(set);
  DataLoaderOptions options{.batch_size = 10, .shuffle = true, .seed = 2, .num_workers = 2};
  options.normalize = Normalize{};
  options.augment = augment();
  options.echo = {.factor = 3};
  DataLoader on_cpu(dataset, options);
  const auto expected = rest_of_epoch(on_cpu);
  FakeCuda cuda;
  for (std::size_t stop = 0; stop < 6; ++stop) {
    DataLoader first(dataset, on_gpu(options));
    for (std::size_t i = 0; i < stop; ++i) first.next();
    DataLoader second(dataset, on_gpu(options));
    second.restore(first.state());
    EXPECT_TRUE(rest_of_gpu_epoch(cuda, second) ==
                std::vector(expected.begin() + static_cast<std::ptrdiff_t>(stop), expected.end()))
        << stop;
  }
}

TEST(GpuEcho, with_augment_needs_data_that_the_gpu_converts) {
  const SampleSet set(rgb_set(DType::i32));
  FakeCuda cuda;
  DataLoaderOptions options;
  options.augment = augment();
  options.echo = {.factor = 2};
  EXPECT_THAT(refusal<OptionError>(open(set), on_gpu(options)),
              HasSubstr("a conversion that the GPU does, not i32 to i32"));
}

TEST(GpuLoaders, one_for_each_gpu_over_one_dataset_deliver_their_shares) {
  const SampleSet set(rgb_set());
  const Dataset dataset = open(set);
  DataLoaderOptions options{.batch_size = 6, .shuffle = true, .seed = 8, .num_workers = 2};
  options.normalize = Normalize{};
  DataLoader whole(dataset, options);
  const auto expected = by_sample(rest_of_epoch(whole));
  FakeCuda cuda({.devices = 2});
  options.world_size = 2;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::byte>> together;
  {
    options.rank = 0;
    DataLoader first(dataset, on_gpu(options, "cuda:0"));
    options.rank = 1;
    DataLoader second(dataset, on_gpu(options, "cuda:1"));
    GpuReader of_first(cuda, 0), of_second(cuda, 1);
    while (true) {
      const auto a = first.next();
      const auto b = second.next();
      EXPECT_EQ(a.has_value(), b.has_value());
      if (!a || !b) break;
      of_first.read(*a);
      of_second.read(*b);
    }
    together.merge(by_sample(of_first.wait()));
    together.merge(by_sample(of_second.wait()));
  }
  EXPECT_TRUE(together == expected);
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

TEST(GpuOptions, refuses_a_gpu_without_a_backend_and_a_copy_depth_that_cannot_work) {
  const SampleSet set(rgb_set());
  const Dataset dataset = open(set);
  const FakeCuda cuda;
  DataLoaderOptions options{.batch_size = 4, .device = "cuda:0"};
  EXPECT_THAT(refusal<OptionError>(dataset, options),
              HasSubstr("needs options.device = h5feed::gpu::device(\"cuda:0\")"));
  options.device = gpu::device("cuda:0");
  options.copy_depth = 0;
  EXPECT_THAT(refusal<OptionError>(dataset, options), HasSubstr("copy_depth must be 1 to 64; got 0"));
}

TEST(GpuMemory, of_the_loader_is_counted_to_the_byte_and_does_not_grow_with_epochs) {
  const SampleSet set(rgb_set());
  FakeCuda cuda;
  const GpuBuffer model(100000, 0);
  DataLoaderOptions options{.batch_size = 10, .num_workers = 1};
  options.normalize = Normalize{};
  options.augment = augment();
  options.echo = {.factor = 2};
  DataLoader loader(open(set), on_gpu(options));
  LoaderStats after_one;
  FakeCudaLive live_after_one;
  for (int epoch = 0; epoch < 100; ++epoch) {
    rest_of_gpu_epoch(cuda, loader);
    if (epoch > 0) continue;
    after_one = loader.stats();
    live_after_one = cuda.live();
  }
  ASSERT_TRUE(after_one.gpu_memory);
  const GpuMemory& gpu = *after_one.gpu_memory;
  EXPECT_EQ(gpu.at_start, 100000u);
  EXPECT_EQ(gpu.loader, live_after_one.device_bytes - 100000);
  EXPECT_EQ(gpu.loader_peak, gpu.loader);
  EXPECT_EQ(gpu.rest(), 100000u);
  EXPECT_GE(after_one.pinned_bytes, 10 * set.sample_bytes());
  const LoaderStats stats = loader.stats();
  EXPECT_EQ(stats.gpu_memory->loader_peak, gpu.loader_peak);
  EXPECT_EQ(stats.pinned_bytes, after_one.pinned_bytes);
  EXPECT_EQ(stats.outputs_allocated, after_one.outputs_allocated);
  EXPECT_EQ(cuda.live().device_bytes, live_after_one.device_bytes);
  EXPECT_EQ(cuda.live().device_allocations, live_after_one.device_allocations);
  EXPECT_EQ(cuda.live().streams, live_after_one.streams);
  EXPECT_THAT(loader.report(), HasSubstr(", device cuda:0 (PCI "));
  EXPECT_THAT(loader.report(), HasSubstr("cuda:0 memory: loader "));
  EXPECT_THAT(loader.report(), HasSubstr("host memory: pinned "));
}

TEST(GpuTrace, shows_when_a_batch_is_put_on_the_streams) {
  struct Sink final : TraceSink {
    std::atomic<int> begun = 0, ended = 0;
    void begin(Stage stage, std::uint64_t) noexcept override { begun += stage == Stage::transfer ? 1 : 0; }
    void end(Stage stage, std::uint64_t) noexcept override { ended += stage == Stage::transfer ? 1 : 0; }
  };
  const SampleSet set(rgb_set());
  FakeCuda cuda;
  DataLoaderOptions options{.batch_size = 10};
  const auto sink = std::make_shared<Sink>();
  options.trace = sink;
  DataLoader loader(open(set), on_gpu(options));
  while (loader.next()) {
  }
  EXPECT_EQ(sink->begun, 5);
  EXPECT_EQ(sink->ended, 5);
}

}  // namespace
}  // namespace h5feed::test
