// SPDX-License-Identifier: Apache-2.0
// Batches in memory of the consumer: next_into().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "batch/strides.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/data_loader_access.hpp"
#include "h5feed/error.hpp"
#include "h5feed/gpu.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/sample_set.hpp"
#include "support/gpu/device_batches.hpp"
#include "support/gpu/gpu_deliveries.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

DataLoaderOptions gpu_options(std::int64_t workers = 2) {
  DataLoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 5, .num_workers = workers};
  options.normalize = Normalize{};
  options.device = gpu::device("cuda:0");
  return options;
}

DataLoaderOptions on_cpu(DataLoaderOptions options) {
  options.device = "cpu";
  return options;
}

// An allocator as LibTorch's: memory is had for the stream it is used on, and freed behind that stream's
// work.
class StreamAllocator {
 public:
  StreamAllocator(FakeCuda& cuda, cudaStream_t stream) : cuda_(cuda), stream_(stream) {}

  ProvideOutput provide() {
    return [this](int device, const DeviceTensors& tensors) {
      const auto allocate = [&](const DeviceTensor& tensor) {
        last_.push_back(std::make_shared<GpuBuffer>(bytes_in(tensor.dtype, tensor.shape), device));
        return last_.back()->get();
      };
      last_.clear();
      DeviceOutput output{allocate(tensors.data), allocate(*tensors.target), stream_};
      for (const DeviceField& field : tensors.fields) output.fields.push_back(allocate(field.values));
      return output;
    };
  }

  // The consumer lets the tensors go: the stream may still read them.
  void release() {
    cuda_.enqueue(stream_, [] {});
    kept_.push_back(std::move(last_));
  }

 private:
  FakeCuda& cuda_;
  const cudaStream_t stream_;
  std::vector<std::shared_ptr<GpuBuffer>> last_;
  std::vector<std::vector<std::shared_ptr<GpuBuffer>>> kept_;
};

TEST(NextInto, writes_the_batches_of_the_cpu_into_memory_of_an_allocator) {
  const SampleSet set(rgb_set());
  const Dataset dataset = open(set);
  for (const bool ring : {false, true}) {
    for (const std::int64_t workers : {0, 2}) {
      DataLoaderOptions options = gpu_options(workers);
      options.echo = {.factor = 2};
      options.output_memory = ring ? OutputMemory::ring : OutputMemory::consumer;
      DataLoader expected_loader(dataset, on_cpu(options));
      const auto expected = rest_of_epoch(expected_loader);
      FakeCuda cuda;
      {
        DataLoader loader(dataset, options);
        GpuReader reader(cuda, 0);
        StreamAllocator allocator(cuda, reader.stream());
        while (const auto batch = loader.next_into(allocator.provide())) {
          reader.read(*batch);
          allocator.release();
        }
        EXPECT_TRUE(reader.wait() == expected) << ring << workers;
        EXPECT_EQ(loader.stats().outputs_allocated, ring ? 4u : 0u) << "of the loader's own";
      }
      EXPECT_EQ(cuda.live(), FakeCudaLive{});
    }
  }
}

TEST(NextInto, may_alternate_with_next) {
  const SampleSet set(rgb_set());
  const Dataset dataset = open(set);
  DataLoader expected_loader(dataset, on_cpu(gpu_options()));
  const auto expected = rest_of_epoch(expected_loader);
  for (const OutputMemory memory : {OutputMemory::ring, OutputMemory::consumer}) {
    FakeCuda cuda;
    DataLoaderOptions options = gpu_options();
    options.output_memory = memory;
    DataLoader loader(dataset, options);
    GpuReader reader(cuda, 0);
    StreamAllocator allocator(cuda, reader.stream());
    for (int i = 0;; ++i) {
      const auto batch = i % 2 == 0 ? loader.next() : loader.next_into(allocator.provide());
      if (!batch) break;
      reader.read(*batch);
      allocator.release();
    }
    EXPECT_TRUE(reader.wait() == expected);
  }
}

TEST(NextInto, fills_the_same_buffers_again_and_again_as_cuda_graphs_need) {
  const SampleSet set(rgb_set());
  const Dataset dataset = open(set);
  DataLoader expected_loader(dataset, on_cpu(gpu_options()));
  const auto expected = rest_of_epoch(expected_loader);
  FakeCuda cuda;
  DataLoader loader(dataset, gpu_options());
  GpuReader reader(cuda, 0);
  const GpuBuffer data(8 * 90 * 4, 0), target(8 * 8, 0);
  const DeviceTensor whole{data.get(), DType::f32, {8, 3, 6, 5}, {90, 30, 5, 1}};
  const DeviceTensor labels{target.get(), DType::i64, {8}, {1}};
  while (const auto batch = loader.next_into(whole, labels, reader.stream())) {
    EXPECT_EQ(batch->gpu->data().data, data.get());
    reader.read(*batch);
  }
  EXPECT_TRUE(reader.wait() == expected) << "the last of 2 samples fills the beginning";
}

TEST(NextInto, lets_other_streams_wait_for_the_batch) {
  const SampleSet set(rgb_set());
  const Dataset dataset = open(set);
  DataLoader expected_loader(dataset, on_cpu(gpu_options(0)));
  const auto expected = rest_of_epoch(expected_loader);
  FakeCuda cuda({.manual = true});
  DataLoader loader(dataset, gpu_options(0));
  GpuReader first(cuda, 0), second(cuda, 0);
  StreamAllocator allocator(cuda, first.stream());
  const auto batch = loader.next_into(allocator.provide());
  second.read(*batch);
  cuda.run({second.stream()});
  EXPECT_GT(cuda.pending(second.stream()), 0u) << "it waits";
  EXPECT_TRUE(second.wait().front() == expected.front());
}

TEST(NextInto, refuses_memory_that_does_not_fit) {
  const SampleSet set(rgb_set());
  const Dataset dataset = open(set);
  FakeCuda cuda({.devices = 2});
  DataLoader loader(dataset, gpu_options(0));
  const TestStream stream;
  const GpuBuffer data(8 * 90 * 4, 0), target(8 * 8, 0), elsewhere(8 * 90 * 4, 1);
  const DeviceTensor good{data.get(), DType::f32, {8, 3, 6, 5}, {90, 30, 5, 1}};
  const DeviceTensor labels{target.get(), DType::i64, {8}, {1}};
  const auto refused = [&](const DeviceTensor& tensor, const DeviceTensor& label) {
    return refusal_of<OptionError>([&] { loader.next_into(tensor, label, stream.get()); });
  };
  DeviceTensor other = good;
  other.dtype = DType::f16;
  EXPECT_THAT(
      refused(other, labels),
      HasSubstr("next_into: data is f16 (8,3,6,5) with strides (90,30,5,1); the batch is f32 (8,3,6,5)"));
  other = good;
  other.shape[0] = 7;
  EXPECT_THAT(refused(other, labels), HasSubstr("data is f32 (7,3,6,5)"));
  other = good;
  other.strides = dense_strides(good.shape, true);
  EXPECT_THAT(refused(other, labels), HasSubstr("with strides (90,1,15,3)"));
  EXPECT_THAT(refused(good, {}), HasSubstr("target is without address"));
  other = good;
  other.data = elsewhere.get();
  EXPECT_THAT(refused(other, labels), HasSubstr("data is not in memory of cuda:0"));
  other.data = static_cast<std::byte*>(data.get()) + 2;
  EXPECT_THAT(refused(other, labels), HasSubstr("the address of data is not aligned to f32"));
  EXPECT_EQ(loader.stats().errors, 6u);
  EXPECT_TRUE(loader.next_into(good, labels, stream.get())) << "the next batch is there";
  EXPECT_THROW(loader.next_into(ProvideOutput()), OptionError);
  DataLoader cpu_loader(dataset, on_cpu(gpu_options(0)));
  EXPECT_THAT(refusal_of<OptionError>([&] { cpu_loader.next_into(good, labels, stream.get()); }),
              HasSubstr("next_into() is for a loader that delivers to a GPU"));
}

TEST(NextInto, is_what_an_epoch_does_that_an_adapter_begins_with_an_allocator) {
  const SampleSet set(rgb_set());
  const Dataset dataset = open(set);
  DataLoader expected_loader(dataset, on_cpu(gpu_options()));
  const auto expected = rest_of_epoch(expected_loader);
  FakeCuda cuda;
  {
    GpuReader reader(cuda, 0);
    DataLoaderOptions options = gpu_options();
    options.output_memory = OutputMemory::consumer;
    const ProvideOutput provide = [&](int device, const DeviceTensors& tensors) {
      const auto buffer = [&](const DeviceTensor& tensor) {
        return GpuBuffer(bytes_in(tensor.dtype, tensor.shape), device);
      };
      const auto memory = std::make_shared<std::array<GpuBuffer, 2>>(
          std::array<GpuBuffer, 2>{buffer(tensors.data), buffer(*tensors.target)});
      return DeviceOutput{(*memory)[0].get(), (*memory)[1].get(), reader.stream(), memory};
    };
    DataLoader loader(dataset, options);
    std::vector<Batch> kept;
    for (auto it = DataLoaderAccess::begin_into(loader, provide); it != loader.end(); ++it) {
      EXPECT_TRUE(it->gpu->owner()) << "the batch keeps the memory";
      reader.read(*it);
      kept.push_back(std::move(*it));
    }
    EXPECT_TRUE(reader.wait() == expected);
    EXPECT_EQ(loader.stats().outputs_allocated, 0u);
    DataLoader cpu_loader(dataset, on_cpu(gpu_options()));
    EXPECT_FALSE((*DataLoaderAccess::begin_into(cpu_loader, provide)).gpu) << "the CPU needs no allocator";
  }
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

TEST(NextInto, passes_on_what_the_allocator_throws_and_goes_on) {
  const SampleSet set(rgb_set());
  FakeCuda cuda;
  {
    DataLoader loader(open(set), gpu_options());
    const auto fails = [](int, const DeviceTensors&) -> DeviceOutput { throw std::bad_alloc(); };
    EXPECT_THROW(loader.next_into(ProvideOutput(fails)), std::bad_alloc);
    int more = 0;
    while (loader.next()) ++more;
    EXPECT_EQ(more, 6);
  }
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

}  // namespace
}  // namespace h5feed::test
