// SPDX-License-Identifier: Apache-2.0
// The loader with device = "cuda:N": the same batches as on the CPU, on the runtime of the tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "cuda/runtime/handles.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/device.hpp"
#include "h5feed/error.hpp"
#include "h5feed/gpu.hpp"
#include "support/captured_log.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Epoch {
  std::vector<std::int64_t> indices;
  std::vector<float> data;
  std::vector<std::int64_t> labels;
  bool operator==(const Epoch&) const = default;
};

template <typename T>
void append(std::vector<T>& to, const void* data, const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  to.insert(to.end(), static_cast<const T*>(data), static_cast<const T*>(data) + elements);
}

Epoch cpu_epoch(const Dataset& dataset, DataLoaderOptions options) {
  DataLoader loader(dataset, std::move(options));
  Epoch epoch;
  for (const Batch& batch : loader) {
    epoch.indices.insert(epoch.indices.end(), batch.indices.begin(), batch.indices.end());
    append(epoch.data, batch.data.bytes.get(), batch.data.shape);
    append(epoch.labels, batch.target.bytes.get(), batch.target.shape);
  }
  return epoch;
}

// Collected by work on the stream, as a training loop would read it.
Epoch gpu_epoch(FakeCuda& cuda, DataLoader& loader, int device) {
  const gpu::DeviceGuard guard(device);
  const gpu::Stream stream = gpu::make_stream(device);
  Epoch epoch;
  for (Batch& batch : loader) {
    epoch.indices.insert(epoch.indices.end(), batch.indices.begin(), batch.indices.end());
    EXPECT_EQ(batch.gpu->device(), device);
    batch.gpu->use_on(stream.get());
    const DeviceTensor data = batch.gpu->data();
    const DeviceTensor target = batch.gpu->target();
    cuda.enqueue(stream.get(), [&epoch, data, target] {
      append(epoch.data, data.data, data.shape);
      append(epoch.labels, target.data, target.shape);
    });
  }
  gpu::check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize", {device});
  return epoch;
}

struct Case {
  const char* name;
  SampleSetSpec set;
};

class LoaderOnGpu : public ::testing::TestWithParam<Case> {};

TEST_P(LoaderOnGpu, delivers_what_the_cpu_delivers_for_any_number_of_workers) {
  const SampleSet set(GetParam().set);
  const Dataset dataset = open(set);
  DataLoaderOptions options{.batch_size = 7, .shuffle = true, .seed = 5};
  options.normalize = Normalize{.mean = {0.3}, .std = {0.25}};
  const Epoch expected = cpu_epoch(dataset, options);
  for (const int workers : {0, 1, 3}) {
    FakeCuda cuda({.devices = 2, .seed = static_cast<unsigned>(workers)});
    {
      options.num_workers = workers;
      options.device = gpu::device("cuda:1");
      DataLoader loader(dataset, options);
      EXPECT_EQ(gpu_epoch(cuda, loader, 1), expected) << workers << " workers";
      const LoaderStats stats = loader.stats();
      EXPECT_EQ(stats.samples, set.samples());
      EXPECT_EQ(stats.outputs_held_bytes, workers == 0 ? 0 : stats.outputs_held_bytes);
    }
    EXPECT_EQ(cuda.live(), FakeCudaLive{});
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sets, LoaderOnGpu,
    ::testing::Values(
        Case{"gzip", gzip_set()},
        Case{"rgb_channels_last", {.shape = {50, 6, 5, 3}, .chunk_shape = {5, 6, 5, 3}, .gzip = 1}},
        Case{"rgb_contiguous", {.shape = {50, 6, 5, 3}}},
        Case{"i16", {.shape = {60, 1, 4, 5}, .dtype = DType::i16, .chunk_shape = {7, 1, 4, 5}}},
        // The GPU does not normalize these: the CPU does.
        Case{"i32", {.shape = {60, 1, 4, 5}, .dtype = DType::i32, .chunk_shape = {7, 1, 4, 5}}}),
    [](const auto& set) { return std::string(set.param.name); });

TEST(LoaderOnGpu, delivers_stored_types_without_normalize_and_single_samples) {
  const SampleSet set(gzip_set());
  FakeCuda cuda;
  DataLoaderOptions options{.batch_size = std::nullopt, .num_workers = 2};
  options.device = gpu::device("cuda");
  const gpu::Stream stream = gpu::make_stream(0);
  DataLoader loader(open(set), options);
  std::int64_t index = 0;
  for (Batch& batch : loader) {
    batch.gpu->use_on(stream.get());
    const DeviceTensor data = batch.gpu->data();
    ASSERT_EQ(data.dtype, DType::u8);
    ASSERT_THAT(data.shape, ElementsAre(1, 8, 6));
    cuda.enqueue(stream.get(), [&set, index, data] {
      EXPECT_EQ(std::memcmp(data.data, set.sample(index), set.sample_bytes()), 0);
    });
    ++index;
  }
  ASSERT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(index, 100);
}

TEST(LoaderOnGpu, delivers_the_empty_last_batch_of_a_rank) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  DataLoaderOptions options{.batch_size = 33, .seed = 1, .rank = 2, .world_size = 3};
  options.normalize = Normalize{};
  const Epoch expected = cpu_epoch(dataset, options);
  FakeCuda cuda;
  options.device = gpu::device("cuda:0");
  DataLoader loader(dataset, options);
  EXPECT_EQ(loader.size(), 2u) << "of 33 samples and of none";
  EXPECT_EQ(gpu_epoch(cuda, loader, 0), expected);
  EXPECT_EQ(expected.indices.size(), 33u);
}

TEST(LoaderOnGpu, may_be_abandoned_begun_again_and_destroyed_at_any_batch) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  FakeCuda cuda;
  DataLoaderOptions options{.batch_size = 10, .num_workers = 2};
  options.device = gpu::device("cuda:0");
  for (int stop = 0; stop < 10; ++stop) {
    DataLoader loader(dataset, options);
    for (int round = 0; round < 2; ++round) {
      loader.start_epoch();
      for (int batch = 0; batch < stop; ++batch) ASSERT_TRUE(loader.next().value().gpu);
    }
  }
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

TEST(LoaderOnGpu, throws_what_the_device_reports_and_goes_on) {
  const SampleSet set(gzip_set());
  FakeCuda cuda;
  DataLoaderOptions options{.batch_size = 10};
  options.device = gpu::device("cuda:0");
  DataLoader loader(open(set), options);
  ASSERT_TRUE(loader.next());
  cuda.fail_call(6, cudaErrorLaunchOutOfResources);
  EXPECT_THROW(loader.next(), DeviceError);
  EXPECT_EQ(loader.stats().errors, 1u);
  int more = 0;
  while (loader.next()) ++more;
  EXPECT_EQ(more, 8);
}

TEST(LoaderOnGpu, automatic_falls_back_to_the_cpu) {
  const SampleSet set(gzip_set());
  const CapturedLog log;
  FakeCuda cuda({.device_count_error = cudaErrorInsufficientDriver, .driver_version = 0});
  DataLoaderOptions options{.batch_size = 10};
  options.device = gpu::device("auto");
  DataLoader loader(open(set), options);
  EXPECT_THAT(log.lines(),
              Contains(HasSubstr("device \"auto\": batches go to the CPU; no NVIDIA driver is loaded")));
  const auto batch = loader.next();
  EXPECT_FALSE(batch->gpu);
  EXPECT_TRUE(batch->data.defined());
  options.device = gpu::device("cuda:0");
  EXPECT_THROW(DataLoader(open(set), options), DeviceError);
}

TEST(LoaderOnGpu, counts_the_slots_of_copies_in_its_memory_budget) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  DataLoaderOptions options{.batch_size = 50, .memory_budget_bytes = 1000};
  EXPECT_THAT(refusal<OptionError>(dataset, options), HasSubstr("× 1 slot "));
  FakeCuda cuda;
  options.device = gpu::device("cuda:0");
  EXPECT_THAT(refusal<OptionError>(dataset, options), HasSubstr("× 3 slots "));
}

}  // namespace
}  // namespace h5feed::test
