// Where the examples train.
#pragma once

#include <c10/core/Device.h>
#include <torch/cuda.h>

#include <string>

#include "h5feed/config.hpp"

namespace example {

/// `name` as LibTorch reads it; for "auto" the GPU where LibTorch has one. Throws c10::Error.
inline c10::Device choose_device(const std::string& name) {
  if (name != "auto") return c10::Device(name);
  return torch::cuda::is_available() ? c10::Device(c10::kCUDA, 0) : c10::Device(c10::kCPU);
}

/// Where the loader delivers for a network on `device`: there, where h5feed is built with CUDA, else in host
/// memory, from which `.to(device)` copies.
inline std::string loader_device(const c10::Device& device) {
  return H5FEED_HAS_CUDA && device.is_cuda() ? device.str() : "cpu";
}

}  // namespace example
