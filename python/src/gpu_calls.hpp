// SPDX-License-Identifier: Apache-2.0
// What h5feed._core and h5feed._gpu, which holds the CUDA backend, know of each other. Objects of C++ cross
// between them, so both must be of one build, which `build` tells.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "h5feed/config.hpp"
#include "h5feed/device.hpp"
#include "h5feed/log.hpp"

namespace h5feed::python {

/// Identifies the build: version and compiler.
inline constexpr std::string_view kBuild = H5FEED_VERSION " " __VERSION__;

/// Functions of h5feed._gpu, of static lifetime. All are thread-safe; none needs the GIL.
struct GpuCalls {
  std::string_view build = kBuild;  ///< kBuild of h5feed._gpu

  /// Sends the log of h5feed._gpu, which has its own copy of h5feed's logger, to `log`.
  void (*set_log)(void (*log)(LogLevel level, std::string_view line)) = nullptr;

  /// Returns `h5feed::gpu::device(name, allocate)`.
  LoaderDevice (*device)(std::string name,
                         std::function<std::shared_ptr<std::byte>(std::size_t bytes)> allocate) = nullptr;
};

/// Name of the capsule with the GpuCalls, the attribute `calls` of h5feed._gpu.
inline constexpr const char* kGpuCapsule = "h5feed._gpu.calls";

}  // namespace h5feed::python
