// SPDX-License-Identifier: Apache-2.0
// A loader in a program that captures CUDA graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "cuda/cuda_device.hpp"
#include "cuda/runtime/check.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/gpu.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/sample_set.hpp"
#include "support/gpu/device_batches.hpp"
#include "support/gpu/gpu_deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

// A capture in the mode that forbids most, as cudaStreamBeginCapture and LibTorch begin it.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() { static_cast<void>(end()); }

  cudaError_t end() {
    if (stream_ == nullptr) return cudaSuccess;
    cudaGraph_t graph = nullptr;
    return cudaStreamEndCapture(std::exchange(stream_, nullptr), &graph);
  }

 private:
  cudaStream_t stream_;
};

TEST(GpuCapture, of_the_fake_is_ended_by_a_query_of_an_event) {
  FakeCuda cuda;
  const gpu::Event event = gpu::make_event(0);
  const TestStream stream;
  Capture capture(stream.get());
  EXPECT_EQ(cudaEventQuery(event.get()), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(capture.end(), cudaErrorStreamCaptureInvalidated);
}

TEST(GpuCapture, is_left_alone_by_a_loader_that_works_meanwhile) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  for (const std::int64_t workers : {0, 2}) {
    DataLoaderOptions options{.batch_size = 5, .shuffle = true, .seed = 3, .num_workers = workers};
    options.normalize = Normalize{};
    DataLoader on_cpu(dataset, options);
    const auto expected = rest_of_epoch(on_cpu);
    FakeCuda cuda;
    options.device = gpu::device("cuda:0");
    DataLoader loader(dataset, options);
    GpuReader reader(cuda, 0);
    {
      const TestStream other;
      Capture capture(other.get());
      while (const auto batch = loader.next()) reader.read(*batch);
      EXPECT_EQ(capture.end(), cudaSuccess) << workers << " workers";
    }
    EXPECT_TRUE(reader.wait() == expected);
  }
}

TEST(GpuCapture, that_forbade_a_call_does_not_end_the_loader) {
  FakeCuda cuda;
  const BatchKind kind;
  const TestStream stream;
  Consumer consumer(cuda, kind);
  const auto device = gpu::make_cuda_device(kind.settings(1, 1));
  auto assembled = kind.assemble(*device, 0);
  Batch batch = device->deliver(0, std::move(*assembled), {});
  // Both the poll of the slot and the look whether the device is lost.
  cuda.fail_call_of("cudaEventQuery", 1, cudaErrorStreamCaptureUnsupported);
  cuda.fail_call_of("cudaStreamQuery", 1, cudaErrorStreamCaptureUnsupported);
  EXPECT_THROW(device->acquire_slot({}), gpu::CudaError);
  EXPECT_TRUE(cuda.failed());
  assembled = kind.assemble(*device, 1);
  batch = device->deliver(1, std::move(*assembled), {});
  consumer.use(batch, 1, stream.get());
  stream.wait();
  EXPECT_EQ(consumer.seen(), 1);
  EXPECT_EQ(consumer.wrong(), 0);
}

TEST(GpuCapture, keeps_the_memory_of_a_batch_that_is_let_go_in_it_from_other_batches) {
  FakeCuda cuda;
  const BatchKind kind;
  const auto device = gpu::make_cuda_device(kind.settings(4, 1));
  const std::size_t before = cuda.live().device_allocations;
  const TestStream stream;
  auto assembled = kind.assemble(*device, 0);
  Batch batch = device->deliver(0, std::move(*assembled), {});
  batch.gpu->use_on(stream.get());
  Capture capture(stream.get());
  batch.gpu.reset();
  EXPECT_EQ(capture.end(), cudaSuccess);
  EXPECT_EQ(cuda.live().device_allocations, before - 1);
  EXPECT_EQ(device->lent_bytes(), 0u);
}

}  // namespace
}  // namespace h5feed::test
