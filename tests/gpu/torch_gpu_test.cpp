// SPDX-License-Identifier: Apache-2.0
// TorchDataLoader on the first GPU of the machine: the tensors of the CPU, for LibTorch's allocator and the
// ring.
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <vector>

#include "h5feed/torch.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

class TorchOnGpu : public testing::TestWithParam<OutputMemory> {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU that this LibTorch can use";
  }

  static DataLoaderOptions options() {
    DataLoaderOptions options{.batch_size = 7, .shuffle = true, .seed = 4, .num_workers = 2};
    options.normalize = Normalize{.mean = {0.3, 0.4, 0.5}, .std = {0.25}};
    options.augment = Augment{.horizontal_flip = 0.5, .random_crop = Augment::RandomCrop{.padding = 2}};
    options.echo = {.factor = 2};
    return options;
  }

  const SampleSet set_{{.shape = {500, 6, 5, 3}, .chunk_shape = {5, 6, 5, 3}, .gzip = 1}};
  const Dataset dataset_ =
      Dataset::open({.files = {set_.path()},
                     .data = "images",
                     .target = "labels",
                     .fields = {{.name = "mask", .data = "images"},
                                {.name = "padded", .data = "images", .collate = Collate::pad}}});
};

TEST_P(TorchOnGpu, batches_are_those_of_the_cpu_on_any_current_stream) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const OutputLayout layout : {OutputLayout::nchw, OutputLayout::channels_last}) {
      DataLoaderOptions wanted = options();
      wanted.output_dtype = dtype;
      wanted.output_layout = layout;
      auto on_cpu = make_data_loader(dataset_, wanted);
      std::vector<torch::Tensor> expected, masks;
      for (auto& batch : *on_cpu) {
        expected.push_back(batch.data);
        masks.push_back(batch.fields.at("mask").values);
      }
      wanted.device = "cuda:0";
      wanted.output_memory = GetParam();
      auto loader = make_data_loader(dataset_, wanted);
      const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool(false, 0));
      std::size_t i = 0;
      for (auto& batch : *loader) {
        ASSERT_TRUE(batch.data.is_cuda());
        ASSERT_TRUE(batch.target.is_cuda());
        EXPECT_EQ(batch.data.strides(), expected[i].strides());
        ASSERT_TRUE(torch::equal(batch.data.cpu(), expected[i])) << i;
        ASSERT_TRUE(batch.fields.at("mask").values.is_cuda());
        ASSERT_TRUE(torch::equal(batch.fields.at("mask").values.cpu(), masks[i])) << i;
        ASSERT_FALSE(batch.fields.at("padded").values.is_cuda());
        ++i;
      }
      EXPECT_EQ(i, expected.size());
    }
  }
}

// Tensors are let go while kernels still read them, as training loops do, and the allocator hands their
// memory out again at once.
TEST_P(TorchOnGpu, tensors_may_be_let_go_while_kernels_read_them) {
  DataLoaderOptions wanted = options();
  wanted.device = "cuda:0";
  wanted.output_memory = GetParam();
  auto loader = make_data_loader(dataset_, wanted);
  DataLoaderOptions host = options();
  auto on_cpu = make_data_loader(dataset_, host);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<torch::Tensor> sums, expected;
    for (auto& batch : *on_cpu) expected.push_back(batch.data.to(torch::kFloat64).sum());
    for (auto& batch : *loader) {
      torch::Tensor data = std::move(batch.data);
      for (int i = 0; i < 20; ++i) data = data + 0.0;
      sums.push_back(data.to(torch::kFloat64).sum());
    }
    ASSERT_EQ(sums.size(), expected.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      EXPECT_NEAR(sums[i].item<double>(), expected[i].item<double>(),
                  1e-6 * (1 + std::abs(expected[i].item<double>())));
    }
  }
}

// The habit that `pin_memory` is for: the host tensor is released while its copy runs.
TEST(TorchPinMemory, lets_host_tensors_go_while_their_copies_run) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU that this LibTorch can use";
  const SampleSet set({.shape = {4096, 64, 64, 3}});
  const Dataset dataset = open(set);
  DataLoaderOptions options{.batch_size = 512, .num_workers = 2};
  auto pageable = make_data_loader(dataset, options);
  options.pin_memory = true;
  auto pinned = make_data_loader(dataset, options);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<torch::Tensor> copies, parts;
    for (auto& batch : *pinned) {
      ASSERT_TRUE(batch.data.is_pinned() && batch.target.is_pinned());
      const torch::Tensor data = std::move(batch.data);
      copies.push_back(data.to(torch::kCUDA, true));
      parts.push_back(data.narrow(0, data.size(0) / 2, 1).to(torch::kCUDA, true));
    }
    std::size_t i = 0;
    for (auto& batch : *pageable) {
      EXPECT_TRUE(torch::equal(copies[i].cpu(), batch.data)) << "batch " << i;
      EXPECT_TRUE(torch::equal(parts[i].cpu(), batch.data.narrow(0, batch.data.size(0) / 2, 1)));
      ++i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Memory, TorchOnGpu, testing::Values(OutputMemory::consumer, OutputMemory::ring),
                         [](const auto& memory) {
                           return memory.param == OutputMemory::consumer ? "of_the_consumer" : "of_a_ring";
                         });

}  // namespace
}  // namespace h5feed::test
