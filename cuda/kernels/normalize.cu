// SPDX-License-Identifier: Apache-2.0
// Launches of the normalize kernels.
#include <algorithm>
#include <cstdint>

#include "cuda/kernels/convert_core.hpp"
#include "cuda/kernels/normalize.hpp"
#include "cuda/kernels/normalize_dispatch.hpp"

static_assert(__cplusplus >= 202002L, "CUDA sources are C++20");

namespace h5feed::gpu {
namespace {

// Several times the number of blocks that run at once, so that multiprocessors that finish early take more of
// them. A table is read into shared memory once per block, not once per run.
constexpr std::int64_t kBlocksPerMultiprocessor = 32;

template <typename Units>
__global__ void __launch_bounds__(kThreads)
    normalize_kernel(const Units units, const void* coefficients, const int table_words) {
  using Table = Values<typename Units::Source, typename Units::Output>;
  using Entry = typename Table::Entry;
  if constexpr (Units::kSharedTable) {
    // This form tells the compiler that all lookups are in shared memory.
    extern __shared__ std::uint32_t shared[];
    const auto* const global = static_cast<const std::uint32_t*>(coefficients);
    for (int i = static_cast<int>(threadIdx.x); i < table_words; i += static_cast<int>(kThreads)) {
      shared[i] = global[i];
    }
    __syncthreads();
    run_thread(units, Table{reinterpret_cast<const Entry*>(shared)}, blockIdx.x, gridDim.x, threadIdx.x);
  } else {
    run_thread(units, Table{static_cast<const Entry*>(coefficients)}, blockIdx.x, gridDim.x, threadIdx.x);
  }
}

__global__ void __launch_bounds__(kThreads) convert_kernel(const ConvertJob job) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < job.count;
       i += stride) {
    convert_element(job.from, job.in, job.to, job.out, i);
  }
}

unsigned blocks_for(std::int64_t tiles, std::int64_t most) noexcept {
  return static_cast<unsigned>(std::clamp<std::int64_t>(tiles, 1, most));
}

}  // namespace

// Returns the status of cudaLaunchKernel, which belongs to this launch; cudaGetLastError might return that of
// an earlier call of the host program.
cudaError_t launch_normalize(const NormalizeJob& job, int multiprocessors, cudaStream_t stream) noexcept {
  if (job.layout.out_elements() == 0) return cudaSuccess;
  cudaError_t status = cudaErrorInvalidValue;
  with_units(job, [&](auto units) {
    using Units = decltype(units);
    const std::int64_t bytes = Units::kSharedTable ? table_bytes<Units>(job.layout.channels) : 0;
    const std::int64_t most = multiprocessors * kBlocksPerMultiprocessor;
    const void* coefficients = job.coefficients;
    int table_words = static_cast<int>(bytes / 4);
    void* arguments[] = {&units, &coefficients, &table_words};
    status = cudaLaunchKernel(normalize_kernel<Units>, dim3(blocks_for(units.tiles(), most)), dim3(kThreads),
                              arguments, static_cast<std::size_t>(bytes), stream);
  });
  return status;
}

cudaError_t launch_convert(const ConvertJob& job, cudaStream_t stream) noexcept {
  if (job.count == 0) return cudaSuccess;
  ConvertJob argument = job;
  void* arguments[] = {&argument};
  const std::int64_t tiles = (job.count + kThreads - 1) / kThreads;
  return cudaLaunchKernel(convert_kernel, dim3(blocks_for(tiles, 1024)), dim3(kThreads), arguments, 0,
                          stream);
}

}  // namespace h5feed::gpu
