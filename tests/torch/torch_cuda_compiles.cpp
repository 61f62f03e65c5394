// SPDX-License-Identifier: Apache-2.0
// Compiled against CUDA's headers and LibTorch's, and linked nowhere: that the adapter fits both.
#include <optional>
#include <vector>

#include "h5feed/torch.hpp"

#if __has_include(<nccl.h>) && __has_include(<gloo/transport/device.h>)
#define USE_C10D_NCCL  // as a LibTorch with NCCL defines it
#include "examples/gradient_sum.hpp"

static_assert(example::kHasNccl);

namespace example {

// What examples/distributed.cpp does on GPUs.
torch::Tensor sum_gradients_by_nccl(const Ranks& ranks, const std::vector<torch::Tensor>& parameters) {
  Communicator communicator(ranks, {}, GpuSums::nccl);
  return GradientSum(parameters).run(communicator, 1, torch::zeros({1}));
}

}  // namespace example
#endif

static_assert(h5feed::detail::kTorchHasCuda);

namespace h5feed::test {

// What a program does with batches on GPUs.
torch::Tensor sum_on_gpus(const Dataset& dataset) {
  DataLoaderOptions options{.batch_size = 64, .device = "cuda:0"};
  options.output_dtype = DType::bf16;
  options.output_layout = OutputLayout::channels_last;
  auto loader = make_data_loader(dataset, options);
  torch::Tensor sum;
  for (auto& batch : *loader) sum = batch.data.sum() + batch.target.sum();
  const torch::Tensor images = loader->begin()->data;
  const torch::Tensor labels = torch::empty({64}, images.options().dtype(torch::kInt64));
  while (const auto batch = loader->next_into(images, labels)) sum = batch->data.sum() + labels.sum();
  const TorchBatch first = *loader->begin();
  const torch::Tensor masks = first.fields.at("mask").values;
  while (const auto batch = loader->next_into(images, labels, {{"mask", masks}})) sum = masks.sum();
  options.output_memory = OutputMemory::ring;
  auto on_the_ring = make_data_loader(dataset, options);
  for (auto& batch : *on_the_ring) sum = batch.data.sum();
  options = {.batch_size = 64, .pin_memory = true};
  auto pinned = make_data_loader(dataset, options);
  for (auto& batch : *pinned) sum = batch.data.to(torch::kCUDA, true).sum();
  return sum;
}

}  // namespace h5feed::test
