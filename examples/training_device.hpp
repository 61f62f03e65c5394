// SPDX-License-Identifier: Apache-2.0
// Choice of the device on which the LibTorch examples train.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include <string>

#include "h5feed/config.hpp"
#include "h5feed/error.hpp"

namespace example {

/// Returns the device that `name` names in LibTorch; for "auto", the first GPU if LibTorch has one, else the
/// CPU. Throws h5feed::OptionError.
inline c10::Device choose_device(const std::string& name) {
  if (name == "auto") {
    return torch::cuda::is_available() ? c10::Device(c10::kCUDA, 0) : c10::Device(c10::kCPU);
  }
  try {
    if (name == "cpu" || name.starts_with("cuda")) return c10::Device(name);
  } catch (const c10::Error&) {  // its text names devices that the examples do not offer
  }
  throw h5feed::OptionError("--device " + name + ": use auto, cpu, cuda or cuda:N");
}

/// Returns the loader's device for a network on `device`: the same GPU if h5feed is built with CUDA, else
/// host memory, from which `.to(device)` copies.
inline std::string loader_device(const c10::Device& device) {
  return H5FEED_HAS_CUDA && device.is_cuda() ? device.str() : "cpu";
}

}  // namespace example
