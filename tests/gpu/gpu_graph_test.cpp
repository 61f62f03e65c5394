// SPDX-License-Identifier: Apache-2.0
// CUDA graphs next to a loader, on the first GPU of the machine: captured while its workers prepare batches,
// replayed on the batches that next_into() brings to their addresses.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "cuda/runtime/handles.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/gpu.hpp"
#include "support/files/sample_set.hpp"
#include "support/gpu/first_gpu.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using namespace gpu;  // NOLINT: this file tests it

class GraphOnGpu : public FirstGpu {
 protected:
  void SetUp() override {
    FirstGpu::SetUp();
    if (IsSkipped()) return;
    data_ = make_device_memory(kDataBytes, 0);
    target_ = make_device_memory(kBatch * sizeof(std::int64_t), 0);
    out_ = make_device_memory(kDataBytes, 0);
  }

  DataLoaderOptions options() const {
    DataLoaderOptions options{.batch_size = kBatch, .shuffle = true, .seed = 6, .num_workers = 3};
    options.normalize = Normalize{};
    options.drop_last = true;
    return options;
  }

  DeviceTensor images() const {
    return {data_.get(), DType::f32, {kBatch, 3, 19, 23}, {3 * kPixels, kPixels, 23, 1}};
  }
  DeviceTensor labels() const { return {target_.get(), DType::i64, {kBatch}, {1}}; }

  // "The training step": the images of the fixed address, copied aside on `stream`.
  void step(cudaStream_t stream) {
    run(cudaMemcpyAsync(out_.get(), data_.get(), kDataBytes, cudaMemcpyDeviceToDevice, stream));
  }

  static constexpr std::int64_t kBatch = 16;
  static constexpr std::int64_t kPixels = 19 * 23;
  static constexpr std::size_t kDataBytes = kBatch * 3 * kPixels * sizeof(float);

  const SampleSet set_{{.shape = {400, 19, 23, 3}, .chunk_shape = {5, 19, 23, 3}, .gzip = 1}};
  const Dataset dataset_ = open(set_);
  DeviceMemory data_, target_, out_;
};

TEST_F(GraphOnGpu, is_captured_and_replayed_while_workers_prepare_batches) {
  DataLoader on_cpu(dataset_, options());
  const auto expected = rest_of_epoch(on_cpu);
  DataLoaderOptions gpu_options = options();
  gpu_options.device = gpu::device("cuda:0");
  gpu_options.output_memory = OutputMemory::consumer;
  DataLoader loader(dataset_, gpu_options);
  const Stream captured = make_stream(0);
  std::size_t i = 0;
  for (int round = 0; round < 3; ++round) {
    // Four batches come while a capture is under way on another stream, in the mode that forbids most, and
    // workers poll and copy; then four that the graph works on.
    cudaGraph_t graph = nullptr;
    run(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal));
    step(captured.get());
    for (int n = 0; n < 4; ++n, ++i) {
      const auto batch = loader.next_into(images(), labels(), stream_.get());
      ASSERT_TRUE(batch);
    }
    run(cudaStreamEndCapture(captured.get(), &graph));
    cudaGraphExec_t step_graph = nullptr;
    run(cudaGraphInstantiate(&step_graph, graph, 0));
    run(cudaGraphDestroy(graph));
    for (int n = 0; n < 4; ++n, ++i) {
      const auto batch = loader.next_into(images(), labels(), stream_.get());
      ASSERT_TRUE(batch);
      run(cudaGraphLaunch(step_graph, stream_.get()));
      const std::vector<std::byte> replayed = download(out_.get(), kDataBytes);
      ASSERT_EQ(std::memcmp(replayed.data(), expected.at(i).data.data(), kDataBytes), 0) << i;
    }
    run(cudaGraphExecDestroy(step_graph));
  }
  EXPECT_EQ(i, 24u);
  EXPECT_TRUE(loader.next_into(images(), labels(), stream_.get())) << "the loader goes on";
}

}  // namespace
}  // namespace h5feed::test
