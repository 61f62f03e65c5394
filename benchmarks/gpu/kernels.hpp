// Kernels that only the benchmarks need.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/host_device.hpp"

namespace h5feed::bench {

/// Byte `i` of a sample of the soak's file.
H5FEED_HOST_DEVICE inline std::uint8_t soak_byte(std::uint32_t sample, std::uint32_t i) noexcept {
  const std::uint32_t mixed = (sample * 2654435761U + i) * 2246822519U;
  return static_cast<std::uint8_t>(mixed >> 24U);
}

/// Samples that one check compares at most; their numbers travel as an argument of the kernel.
inline constexpr std::uint32_t kSoakSamples = 256;

/// A batch of (samples, sample_bytes) uint8 and what it is to hold.
struct SoakCheck {
  const std::uint8_t* data = nullptr;
  std::uint32_t samples = 0;
  std::uint32_t sample_bytes = 0;
  std::uint32_t expected[kSoakSamples] = {};
  std::uint32_t* wrong_samples = nullptr;  ///< in device memory; counted up
};

/// Enqueue on `stream` and do not synchronize. `launch_spin` keeps every multiprocessor partly busy for
/// `nanoseconds`, with room for other kernels beside it.
cudaError_t launch_spin(std::uint64_t nanoseconds, int multiprocessors, cudaStream_t stream) noexcept;
cudaError_t launch_soak_check(const SoakCheck& check, cudaStream_t stream) noexcept;

}  // namespace h5feed::bench
