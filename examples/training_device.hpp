// Where the examples with LibTorch train.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include <string>

#include "h5feed/config.hpp"
#include "h5feed/error.hpp"

namespace example {

/// `name` as LibTorch reads it; for "auto" the GPU where LibTorch has one. Throws h5feed::OptionError.
inline c10::Device choose_device(const std::string& name) {
  if (name == "auto") {
    return torch::cuda::is_available() ? c10::Device(c10::kCUDA, 0) : c10::Device(c10::kCPU);
  }
  try {
    if (name == "cpu" || name.starts_with("cuda")) return c10::Device(name);
  } catch (const c10::Error&) {  // its text speaks of devices that are no choice here
  }
  throw h5feed::OptionError("--device " + name + ": use auto, cpu, cuda or cuda:N");
}

/// Where the loader delivers for a network on `device`: there, where h5feed is built with CUDA, else in host
/// memory, from which `.to(device)` copies.
inline std::string loader_device(const c10::Device& device) {
  return H5FEED_HAS_CUDA && device.is_cuda() ? device.str() : "cpu";
}

}  // namespace example
