// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/check.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "base/byte_units.hpp"

namespace h5feed::gpu {
namespace {

std::string place_text(const CallPlace& place) {
  std::string text = fmt::format("cuda:{}", place.device);
  if (place.batch) text += fmt::format(", epoch {}, batch {}", place.epoch.value_or(0), *place.batch);
  return text;
}

std::string next_step(cudaError_t code) {
  if (code == cudaErrorUnknown) {
    return "the GPU or its driver has failed, as when a GPU falls off the bus; look for Xid errors in the "
           "kernel's log and at nvidia-smi, and start the program again";
  }
  if (code == cudaErrorDevicesUnavailable) {
    return "another process uses this GPU exclusively, or its compute mode forbids its use; see nvidia-smi "
           "-q -d COMPUTE, and choose another device, end that process, or set nvidia-smi -c DEFAULT";
  }
  if (means_no_gpu(code)) return why_no_gpu(code);
  if (ends_context(code)) {
    return "the context of this device is lost; look for a faulty kernel with compute-sanitizer, or for a "
           "faulty GPU with nvidia-smi, and start the program again";
  }
  return "see the CUDA runtime's documentation of this error";
}

[[noreturn]] void refuse(cudaError_t code, const char* call, const CallPlace& place,
                         const std::string& step) {
  static_cast<void>(cudaGetLastError());
  throw CudaError(fmt::format("{}: {} failed with {} ({}); {}", place_text(place), call,
                              cudaGetErrorName(code), cudaGetErrorString(code), step),
                  code);
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

void check(cudaError_t code, const char* call, const CallPlace& place) {
  if (code != cudaSuccess) refuse(code, call, place, next_step(code));
}

void check_allocation(cudaError_t code, const char* call, std::uint64_t bytes, const CallPlace& place) {
  if (code != cudaErrorMemoryAllocation) return check(code, call, place);
  static_cast<void>(cudaGetLastError());
  std::size_t free = 0, total = 0;
  std::string left;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
    left = fmt::format(" of which {} of {} are free", format_bytes(free), format_bytes(total));
  }
  refuse(code, call, place,
         fmt::format(
             "{} were asked for on a device{}; lower batch_size or copy_depth (batches prefetched to the "
             "GPU), split batches into micro-batches, or let delivered batches go earlier",
             format_bytes(bytes), left));
}

bool ends_context(cudaError_t code) noexcept {
  switch (code) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorMpsClientTerminated:
    case cudaErrorContextIsDestroyed:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

bool means_no_gpu(cudaError_t code) noexcept {
  return code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice || code == cudaErrorUnknown ||
         code == cudaErrorInitializationError || code == cudaErrorSystemDriverMismatch ||
         code == cudaErrorCompatNotSupportedOnDevice;
}

std::string why_no_gpu(cudaError_t code, std::string_view otherwise) {
  int driver = 0;
  int runtime = 0;
  ignore_error(cudaDriverGetVersion(&driver));
  ignore_error(cudaRuntimeGetVersion(&runtime));
  if (code == cudaErrorNoDevice) {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return visible == nullptr
               ? std::string("the driver sees no GPU; check nvidia-smi")
               : fmt::format("the driver shows no GPU with CUDA_VISIBLE_DEVICES=\"{}\"; change it", visible);
  }
  if (driver == 0) return fmt::format("no NVIDIA driver is loaded; install one, or {}", otherwise);
  if (driver < runtime) {
    return fmt::format("the NVIDIA driver supports CUDA {}, h5feed was built with {}; update the driver",
                       version_text(driver), version_text(runtime));
  }
  return "the NVIDIA driver cannot be initialized; check nvidia-smi";
}

}  // namespace h5feed::gpu
