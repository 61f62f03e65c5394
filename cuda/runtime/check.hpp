// SPDX-License-Identifier: Apache-2.0
// From error codes of the CUDA runtime to exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <string>

#include "h5feed/batch.hpp"
#include "h5feed/error.hpp"

namespace h5feed::gpu {

/// A call of the CUDA runtime that failed.
class CudaError : public DeviceError {
 public:
  CudaError(const std::string& message, cudaError_t code) : DeviceError(message), code_(code) {}
  cudaError_t code() const noexcept { return code_; }

 private:
  cudaError_t code_;
};

/// What a call was made for, for its error message.
struct CallPlace {
  int device = 0;
  std::optional<std::uint64_t> epoch = {};
  std::optional<std::uint64_t> batch = {};  ///< within the epoch

  static CallPlace of(int device, const Batch& batch) { return {device, batch.epoch, batch.number}; }
};

/// Throws CudaError naming `call`, the device, the batch and what to do, unless `code` is cudaSuccess.
/// Clears the error from the runtime's per-thread memory, so that no later call reports it again.
void check(cudaError_t code, const char* call, const CallPlace& place);

/// The same for allocations: an out-of-memory error names the bytes asked for, what the device has left,
/// and what to lower.
void check_allocation(cudaError_t code, const char* call, std::uint64_t bytes, const CallPlace& place);

/// Whether the code says that the machine has no GPU that this build can use, as opposed to a failure of
/// one: no driver, a driver too old, no device, a driver that cannot be initialized.
bool means_no_gpu(cudaError_t code) noexcept;

/// Whether, by the runtime's documentation, every later call of the process on that device fails too.
bool ends_context(cudaError_t code) noexcept;

/// Why, in words for people, and what to do: "no NVIDIA driver is loaded; …".
std::string why_no_gpu(cudaError_t code);

/// For destructors, which cannot throw: forgets the error, also that of a runtime which is being unloaded
/// while the process exits.
inline void ignore_error(cudaError_t code) noexcept {
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace h5feed::gpu
