#include <algorithm>
#include <cstdint>

#include "cuda/convert_core.hpp"
#include "cuda/normalize.hpp"
#include "cuda/normalize_dispatch.hpp"

static_assert(__cplusplus >= 202002L, "CUDA sources are C++20");

namespace h5feed::gpu {
namespace {

constexpr int kThreads = 256;  // DALI measured 256 above 512 for this kind of kernel (DALI pull request 3771)
constexpr int kBlocksPerMultiprocessor = 8;
// Below the 48 KiB that every device offers without asking, with room for 8 blocks on a multiprocessor.
constexpr std::int64_t kSharedBytes = 24 << 10;

// Blocks walk over the units in strides: a table is read into shared memory once a block, not once a run.
template <typename Units>
__global__ void __launch_bounds__(kThreads)
    normalize_kernel(const Units units, const void* coefficients, const int shared_words) {
  using Value = Values<typename Units::Source, typename Units::Output>;
  extern __shared__ std::uint32_t shared[];
  const auto* const global = static_cast<const std::uint32_t*>(coefficients);
  for (int i = static_cast<int>(threadIdx.x); i < shared_words; i += kThreads) shared[i] = global[i];
  if (shared_words > 0) __syncthreads();
  const Value values{shared_words > 0 ? reinterpret_cast<const typename Value::Entry*>(shared)
                                      : static_cast<const typename Value::Entry*>(coefficients)};
  const std::int64_t size = units.size();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; unit < size;
       unit += stride) {
    units(unit, values);
  }
}

__global__ void __launch_bounds__(kThreads) convert_kernel(const ConvertJob job) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < job.count;
       i += stride) {
    convert_element(job.from, job.in, job.to, job.out, i);
  }
}

unsigned blocks_for(std::int64_t units, std::int64_t most) noexcept {
  const std::int64_t needed = (units + kThreads - 1) / kThreads;
  return static_cast<unsigned>(std::clamp<std::int64_t>(needed, 1, most));
}

}  // namespace

// cudaLaunchKernel returns the status of this launch; cudaGetLastError might give that of an earlier call
// of the host program.
cudaError_t launch_normalize(const NormalizeJob& job, int multiprocessors, cudaStream_t stream) noexcept {
  if (job.layout.out_elements() == 0) return cudaSuccess;
  cudaError_t status = cudaErrorInvalidValue;
  with_units(job, [&](auto units) {
    using Units = decltype(units);
    using Value = Values<typename Units::Source, typename Units::Output>;
    const std::int64_t bytes = job.layout.channels * Value::kEntriesPerChannel *
                               static_cast<std::int64_t>(sizeof(typename Value::Entry));
    const std::int64_t shared_bytes = bytes <= kSharedBytes ? bytes : 0;
    const std::int64_t most = static_cast<std::int64_t>(multiprocessors) * kBlocksPerMultiprocessor;
    const void* coefficients = job.coefficients;
    int shared_words = static_cast<int>(shared_bytes / 4);
    void* arguments[] = {&units, &coefficients, &shared_words};
    status = cudaLaunchKernel(normalize_kernel<Units>, dim3(blocks_for(units.size(), most)), dim3(kThreads),
                              arguments, static_cast<std::size_t>(shared_bytes), stream);
  });
  return status;
}

cudaError_t launch_convert(const ConvertJob& job, cudaStream_t stream) noexcept {
  if (job.count == 0) return cudaSuccess;
  ConvertJob argument = job;
  void* arguments[] = {&argument};
  return cudaLaunchKernel(convert_kernel, dim3(blocks_for(job.count, 1024)), dim3(kThreads), arguments, 0,
                          stream);
}

}  // namespace h5feed::gpu
