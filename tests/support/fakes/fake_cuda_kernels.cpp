// SPDX-License-Identifier: Apache-2.0
// Launches of cuda/kernels/normalize.cu on the fake runtime: runs the same units on the stream's thread.
#include "cuda/kernels/convert_core.hpp"
#include "cuda/kernels/normalize.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/gpu/kernel_oracle.hpp"

namespace h5feed::gpu {

cudaError_t launch_normalize(const NormalizeJob& job, int, cudaStream_t stream) noexcept {
  if (job.layout.out_elements() == 0) return cudaSuccess;
  if (!can_normalize(job.from, job.to)) return cudaErrorInvalidValue;
  return h5feed::test::fake_launch(stream, [job] { test::run_on_cpu(job); });
}

cudaError_t launch_convert(const ConvertJob& job, cudaStream_t stream) noexcept {
  if (job.count == 0) return cudaSuccess;
  return h5feed::test::fake_launch(stream, [job] {
    for (std::int64_t i = 0; i < job.count; ++i) convert_element(job.from, job.in, job.to, job.out, i);
  });
}

}  // namespace h5feed::gpu
