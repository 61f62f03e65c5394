// SPDX-License-Identifier: Apache-2.0
// The part of a CUDA runtime that nvcc's objects need: registering and launching kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace h5feed::test {

/// One call of cudaLaunchKernel. `arguments` are valid during the call only.
struct KernelLaunch {
  std::string kernel;  ///< mangled name; empty if no object registered it
  dim3 grid, block;
  void** arguments = nullptr;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

/// While it exists, `cudaLaunchKernel` calls `launched` and returns its result. At most one instance at a
/// time; for one thread.
class LaunchListener {
 public:
  explicit LaunchListener(std::function<cudaError_t(const KernelLaunch&)> launched);
  ~LaunchListener();
  LaunchListener(const LaunchListener&) = delete;
  LaunchListener& operator=(const LaunchListener&) = delete;
};

/// Returns the GPU code in the program's objects, as "sm_90" (machine code) and "compute_75" (PTX), one set
/// per object. Throws std::runtime_error if nvcc's containers do not have the format of CUDA 12 and 13.
std::vector<std::set<std::string>> registered_code();

}  // namespace h5feed::test
