// SPDX-License-Identifier: Apache-2.0
// Converts error codes of the CUDA runtime to exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "h5feed/batch.hpp"
#include "h5feed/error.hpp"

namespace h5feed::gpu {

/// Thrown if a call of the CUDA runtime fails.
class CudaError : public DeviceError {
 public:
  CudaError(const std::string& message, cudaError_t code) : DeviceError(message), code_(code) {}
  cudaError_t code() const noexcept { return code_; }

 private:
  cudaError_t code_;
};

/// The device and batch of a call, for its error message.
struct CallPlace {
  int device = 0;
  std::optional<std::uint64_t> epoch = {};
  std::optional<std::uint64_t> batch = {};  ///< Batch number within the epoch

  /// Returns the place of a call that works on `batch`.
  static CallPlace of(int device, const Batch& batch) { return {device, batch.epoch, batch.number}; }
};

/// Throws CudaError unless `code` is cudaSuccess. The message names `call`, the device, the batch and the
/// next step. Clears the runtime's per-thread last error, so that no later call reports it again.
void check(cudaError_t code, const char* call, const CallPlace& place);

/// Throws CudaError unless `code`, the result of an allocation of `bytes`, is cudaSuccess. The message of an
/// out-of-memory error names the bytes requested, the free memory of the device, and the options to lower.
/// Clears the runtime's per-thread last error.
void check_allocation(cudaError_t code, const char* call, std::uint64_t bytes, const CallPlace& place);

/// Returns whether the code means that this build can use no GPU of the machine, as opposed to a failure of
/// one GPU: no driver, a driver that is too old or does not match, no device, or a driver that cannot be
/// initialized. cudaErrorUnknown counts, too.
bool means_no_gpu(cudaError_t code) noexcept;

/// Whether, according to the documentation of the runtime, every later call of the process on that device
/// fails, too.
bool ends_context(cudaError_t code) noexcept;

/// Returns why no GPU can be used and what to do, for messages: "no NVIDIA driver is loaded; …". `otherwise`:
/// what to do on a machine without a GPU.
std::string why_no_gpu(cudaError_t code, std::string_view otherwise = "use device = \"cpu\"");

/// Discards an error in destructors, which cannot throw, and clears the runtime's per-thread last error. Also
/// covers a runtime that is being unloaded while the process exits.
inline void ignore_error(cudaError_t code) noexcept {
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace h5feed::gpu
