// SPDX-License-Identifier: Apache-2.0
// Kernels used only by the benchmarks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/cuda_macros.hpp"

namespace h5feed::bench {

/// Returns byte `i` of a sample of the soak test's file.
H5FEED_HOST_DEVICE inline std::uint8_t soak_byte(std::uint32_t sample, std::uint32_t i) noexcept {
  const std::uint32_t mixed = (sample * 2654435761U + i) * 2246822519U;
  return static_cast<std::uint8_t>(mixed >> 24U);
}

/// Most samples that one check compares; their numbers are passed as a kernel argument.
inline constexpr std::uint32_t kSoakSamples = 256;

/// A batch of (samples, sample_bytes) uint8 and its expected samples.
struct SoakCheck {
  const std::uint8_t* data = nullptr;
  std::uint32_t samples = 0;
  std::uint32_t sample_bytes = 0;
  std::uint32_t expected[kSoakSamples] = {};
  std::uint32_t* wrong_samples = nullptr;  ///< counter in device memory; incremented per wrong sample
};

/// Enqueues on `stream`, without synchronizing, a kernel that keeps every multiprocessor partly busy for
/// `nanoseconds` and leaves room for other kernels.
cudaError_t launch_spin(std::uint64_t nanoseconds, int multiprocessors, cudaStream_t stream) noexcept;
/// Enqueues the comparison of a batch on `stream`; does not synchronize.
cudaError_t launch_soak_check(const SoakCheck& check, cudaStream_t stream) noexcept;

}  // namespace h5feed::bench
