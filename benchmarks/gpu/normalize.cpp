// SPDX-License-Identifier: Apache-2.0
// The normalize kernel, compared with the bandwidth of the GPU's memory.
#include "gpu/normalize_setup.hpp"

namespace h5feed::bench {
namespace {

Row measure(Bench& bench, const NormalizeCase& what) {
  const gpu::DeviceGuard guard(bench.device);
  const gpu::Stream stream = gpu::make_stream(bench.device);
  NormalizeSetup setup(bench, what, stream.get());
  const auto bytes = static_cast<double>(setup.moved_bytes());
  return {.name = what.name,
          .unit = "B/s",
          .pairs = alternate(
              bench.sizes.repetitions, [&] { return bytes / setup.kernel_seconds(); },
              [&] { return bytes / setup.copy_seconds(); }),
          .note = "bytes read and written, " + setup.description() +
                  "; against a device-to-device copy of as many"};
}

}  // namespace

std::vector<Benchmark> normalize_benchmarks() {
  // The first three use the kernel as the loader launches it.
  static constexpr NormalizeCase kCases[] = {
      {.name = "normalize_plain", .to = DType::f32},
      {.name = "normalize_augmented", .to = DType::f32, .augmented = true, .in_channels_last = true},
      {.name = "gather_augmented",
       .to = DType::f32,
       .augmented = true,
       .in_channels_last = true,
       .gathered = true},
      {.name = "normalize_plain_streaming", .to = DType::f32, .past_caches = true},
      {.name = "normalize_plain_f16", .to = DType::f16},
      {.name = "normalize_plain_bf16", .to = DType::bf16},
      {.name = "normalize_augmented_streaming",
       .to = DType::f32,
       .augmented = true,
       .past_caches = true,
       .in_channels_last = true},
      {.name = "normalize_augmented_f16", .to = DType::f16, .augmented = true, .in_channels_last = true},
      {.name = "normalize_augmented_bf16", .to = DType::bf16, .augmented = true, .in_channels_last = true},
      {.name = "gather_plain", .to = DType::f32, .gathered = true},
      {.name = "gather_augmented_f16",
       .to = DType::f16,
       .augmented = true,
       .in_channels_last = true,
       .gathered = true},
      {.name = "channels_last", .to = DType::f32, .in_channels_last = true, .out_channels_last = true},
      {.name = "channels_last_augmented",
       .to = DType::f32,
       .augmented = true,
       .in_channels_last = true,
       .out_channels_last = true},
      {.name = "channels_last_augmented_f16",
       .to = DType::f16,
       .augmented = true,
       .in_channels_last = true,
       .out_channels_last = true},
      {.name = "nchw_to_nhwc", .to = DType::f32, .out_channels_last = true},
      {.name = "nchw_to_nhwc_f16", .to = DType::f16, .out_channels_last = true}};
  std::vector<Benchmark> benchmarks;
  for (const NormalizeCase& what : kCases) {
    benchmarks.push_back(
        {{what.name}, [&what](Bench& bench) -> std::vector<Row> { return {measure(bench, what)}; }});
  }
  return benchmarks;
}

}  // namespace h5feed::bench
