// SPDX-License-Identifier: Apache-2.0
// The normalize kernel, compared with LibTorch's eager operators.
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <string>
#include <utility>

#include "gpu/normalize_setup.hpp"
#include "gpu/torch_benches.hpp"

namespace h5feed::bench {
namespace {

Row measure(Bench& bench, const NormalizeCase& what, torch::ScalarType type) {
  const torch::NoGradGuard no_grad;
  const gpu::DeviceGuard guard(bench.device);
  const auto device = torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(bench.device));
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device.index()).stream();
  NormalizeSetup setup(bench, what, stream);
  const torch::Tensor images = torch::from_blob(
      setup.images(), {bench.sizes.kernel_samples, 3, bench.sizes.kernel_side, bench.sizes.kernel_side},
      torch::TensorOptions(torch::kUInt8).device(device));
  const auto per_channel = [&](double r, double g, double b) {
    return (torch::tensor({r, g, b}) * 255).view({1, 3, 1, 1}).to(device).to(type);
  };
  const torch::Tensor mean = per_channel(0.485, 0.456, 0.406);
  const torch::Tensor std = per_channel(0.229, 0.224, 0.225);
  const auto eager_seconds = [&] { return setup.seconds([&] { images.to(type).sub_(mean).div_(std); }); };
  return {.name = what.name,
          .unit = "times",
          .pairs = alternate(
              bench.sizes.repetitions, [&] { return eager_seconds() / setup.kernel_seconds(); },
              [&] { return eager_seconds() / setup.copy_seconds(); }),
          .note = "time of LibTorch's to().sub_().div_() over the kernel's, " + setup.description() +
                  "; ceiling: over a device-to-device copy of the kernel's bytes"};
}

}  // namespace

std::vector<Benchmark> eager_benchmarks() {
  const auto benchmark = [](const NormalizeCase& what, torch::ScalarType type) {
    return Benchmark{{what.name},
                     [=](Bench& bench) -> std::vector<Row> { return {measure(bench, what, type)}; }};
  };
  return {benchmark({.name = "normalize_vs_eager", .to = DType::f32}, torch::kFloat32),
          benchmark({.name = "normalize_vs_eager_f16", .to = DType::f16}, torch::kFloat16),
          benchmark({.name = "normalize_vs_eager_bf16", .to = DType::bf16}, torch::kBFloat16)};
}

}  // namespace h5feed::bench
