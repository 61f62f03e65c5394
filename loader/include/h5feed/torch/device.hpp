// SPDX-License-Identifier: Apache-2.0
// Device of a TorchDataLoader, limited by the CUDA support of h5feed and LibTorch. Part of h5feed/torch.hpp.
#pragma once

#include <torch/types.h>
#include <torch/version.h>

#include <map>
#include <string>
#include <utility>

#include "h5feed/batch.hpp"
#include "h5feed/config.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/device.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "h5feed/optional_batch.hpp"
#include "h5feed/options.hpp"
#include "h5feed/torch/tensor.hpp"

// The build of a LibTorch with CUDA generates this header.
#if H5FEED_HAS_CUDA && __has_include(<c10/cuda/impl/cuda_cmake_macros.h>)
#include "h5feed/torch/cuda.hpp"

namespace h5feed::detail {
inline constexpr bool kTorchHasCuda = true;
}
#else

namespace h5feed::detail {

inline constexpr bool kTorchHasCuda = false;

/// Tensors of a GPU batch. Builds without CUDA declare the type but never make one.
struct TorchTensors {
  torch::Tensor data;
  torch::Tensor target;
  std::map<std::string, torch::Tensor> fields;
};
/// Always throws DeviceError, because without CUDA no batch is on a GPU.
inline TorchTensors cuda_tensors(const Batch&) { throw DeviceError("this LibTorch has no CUDA"); }
/// Returns the tensor of a CPU batch without copying it.
inline torch::Tensor cpu_tensor(HostTensor host) { return to_tensor(std::move(host)); }
/// Always throws OptionError, because without CUDA no loader delivers to a GPU.
inline OptionalBatch<Batch> next_into(DataLoader&, const torch::Tensor&, const torch::Tensor&,
                                      const std::map<std::string, torch::Tensor>&) {
  throw OptionError("next_into() is for a loader that delivers to a GPU; use the iterators");
}
/// Does nothing in builds without CUDA.
inline void prepare_for_cuda(DataLoaderOptions&) {}
/// Returns an empty provider in builds without CUDA.
inline ProvideOutput torch_provider(const DataLoaderOptions&) { return {}; }

}  // namespace h5feed::detail
#endif

namespace h5feed::detail {

/// Completes `options` for the device they request. Throws OptionError if `device` names a GPU but h5feed or
/// LibTorch was built without CUDA; `device` "auto" becomes "cpu" then, with one log line.
inline void prepare_torch_device(DataLoaderOptions& options) {
  const std::string& name = options.device.name();
  const bool named = name.starts_with("cuda");
  if constexpr (kTorchHasCuda) {
    if (named || name == "auto" || options.pin_memory) prepare_for_cuda(options);
  } else {
    if (named) {
      throw OptionError(H5FEED_HAS_CUDA
                            ? "this LibTorch (" TORCH_VERSION
                              ") has no CUDA; configure with -DCMAKE_PREFIX_PATH=… of one that has, "
                              "or use device \"cpu\""
                            : "device \"" + name + "\": h5feed was built without CUDA");
    }
    if (name == "auto") {
      log_once(LogLevel::warning,
               H5FEED_HAS_CUDA
                   ? "device \"auto\": batches go to the CPU; this LibTorch (" TORCH_VERSION
                     ") has no CUDA; configure with -DCMAKE_PREFIX_PATH=… of one that has, or set "
                     "device \"cpu\""
                   : "device \"auto\": batches go to the CPU; h5feed was built without CUDA; build "
                     "it with CUDA, or set device \"cpu\"");
      options.device = "cpu";
    }
    if (options.pin_memory && !options.device.backend() && H5FEED_HAS_CUDA) {
      log_once(LogLevel::warning, "pin_memory: batches are in pageable memory; this LibTorch (" TORCH_VERSION
                                  ") has no CUDA; configure with -DCMAKE_PREFIX_PATH=… of one that has");
      options.pin_memory = false;
    }
  }
}

}  // namespace h5feed::detail
