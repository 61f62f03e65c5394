// The part of a CUDA runtime that objects of nvcc need: what they register, and what they launch.
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
  std::string kernel;  ///< mangled; empty where no object registered it
  dim3 grid, block;
  void** arguments = nullptr;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

/// While it lives, `cudaLaunchKernel` calls `launched` and returns what that returns. One at a time; for one
/// thread.
class LaunchListener {
 public:
  explicit LaunchListener(std::function<cudaError_t(const KernelLaunch&)> launched);
  ~LaunchListener();
  LaunchListener(const LaunchListener&) = delete;
  LaunchListener& operator=(const LaunchListener&) = delete;
};

/// What the objects of the program hold for GPUs, as "sm_90" (machine code) and "compute_75" (PTX), one set
/// an object. Throws std::runtime_error where the containers that nvcc writes are not what they were in CUDA
/// 12 and 13.
std::vector<std::set<std::string>> registered_code();

}  // namespace h5feed::test
