// SPDX-License-Identifier: Apache-2.0
// Compiles only as C++20, for host and device.
#include "cuda/kernels/cuda_code.hpp"

#include <concepts>

static_assert(__cplusplus >= 202002L, "CUDA sources are C++20");
#ifdef __CUDA_ARCH__
static_assert(__CUDA_ARCH__ >= 750, "CUDA 13 has no older GPUs");
#endif

namespace h5feed::gpu::test {
namespace {

template <std::integral T>
__host__ __device__ consteval T twice(T value) {
  return 2 * value;
}

struct Extent {
  int height, width;
  bool operator==(const Extent&) const = default;
};
static_assert(Extent{.height = 1, .width = twice(2)} == Extent{1, 4});

__global__ void fill(int* values, int count) {
  if (const auto i = static_cast<int>(threadIdx.x); i < count) values[i] = twice(21);
}

}  // namespace

long language_of_cuda_sources() {
  static_cast<void>(&fill);
  return __cplusplus;
}

}  // namespace h5feed::gpu::test
