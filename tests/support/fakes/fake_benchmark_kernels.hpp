// SPDX-License-Identifier: Apache-2.0
// The kernels of benchmarks/gpu on the tests' CUDA runtime; link fake_benchmark_kernels.cpp instead of
// kernels.cu.
#pragma once

#include <cstdint>

namespace h5feed::test {

/// Returns how often launch_spin was called in this process. Thread-safe.
std::uint64_t fake_spins() noexcept;

}  // namespace h5feed::test
