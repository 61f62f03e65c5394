// The normalize kernel against what the GPU's memory can do.
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

std::vector<Row> measure_normalize(Bench& bench) {
  // The named rows are the kernel as the loader launches it.
  static constexpr NormalizeCase kCases[] = {{"normalize_plain", DType::f32, false, false},
                                             {"normalize_plain_streaming", DType::f32, false, true},
                                             {"normalize_plain_f16", DType::f16, false, false},
                                             {"normalize_plain_bf16", DType::bf16, false, false},
                                             {"normalize_augmented", DType::f32, true, false},
                                             {"normalize_augmented_streaming", DType::f32, true, true},
                                             {"normalize_augmented_f16", DType::f16, true, false},
                                             {"normalize_augmented_bf16", DType::bf16, true, false}};
  std::vector<Row> rows;
  for (const NormalizeCase& what : kCases) rows.push_back(measure(bench, what));
  return rows;
}

}  // namespace h5feed::bench
