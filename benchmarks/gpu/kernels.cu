// SPDX-License-Identifier: Apache-2.0
#include "gpu/kernels.hpp"

namespace h5feed::bench {
namespace {

__device__ unsigned long long nanoseconds_now() {
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void spin(unsigned long long nanoseconds) {
  const unsigned long long begin = nanoseconds_now();
  while (nanoseconds_now() - begin < nanoseconds) __nanosleep(500);
}

// Compares samples with their expected bytes; one block per sample.
__global__ void check_samples(SoakCheck check) {
  const std::uint32_t sample = blockIdx.x;
  const std::uint8_t* const bytes = check.data + static_cast<std::size_t>(sample) * check.sample_bytes;
  int wrong = 0;
  for (std::uint32_t i = threadIdx.x; i < check.sample_bytes; i += blockDim.x) {
    if (bytes[i] != soak_byte(check.expected[sample], i)) wrong = 1;
  }
  if (__syncthreads_or(wrong) != 0 && threadIdx.x == 0) atomicAdd(check.wrong_samples, 1U);
}

}  // namespace

cudaError_t launch_spin(std::uint64_t nanoseconds, int multiprocessors, cudaStream_t stream) noexcept {
  spin<<<static_cast<unsigned>(multiprocessors), 256, 0, stream>>>(nanoseconds);
  return cudaGetLastError();
}

cudaError_t launch_soak_check(const SoakCheck& check, cudaStream_t stream) noexcept {
  if (check.samples == 0) return cudaSuccess;
  check_samples<<<check.samples, 128, 0, stream>>>(check);
  return cudaGetLastError();
}

}  // namespace h5feed::bench
