// SPDX-License-Identifier: Apache-2.0
// Hook for timelines (NVTX, Chrome trace): which stage runs when, on which thread.
#pragma once

#include <cstdint>

#include "h5feed/export.hpp"

namespace h5feed {

/// Stages of the loader, in the order in which a batch passes them. `transfer`, with a GPU alone: copies and
/// kernels of the batch are put on the GPU's streams; when they run is not seen here.
enum class Stage : std::uint8_t { plan, read_decode, gather, transfer, wait };

/// Name for timelines: "plan", "read+decode", …
H5FEED_EXPORT const char* name_of(Stage stage) noexcept;

/// Receives stage boundaries. Called on the thread that does the work, from many threads at once;
/// implementations are thread-safe, do not block and do not throw.
class H5FEED_EXPORT TraceSink {
 public:
  virtual ~TraceSink() = default;
  /// `batch` is the batch's number within the loader's life, counting over epochs.
  virtual void begin(Stage stage, std::uint64_t batch) noexcept = 0;
  virtual void end(Stage stage, std::uint64_t batch) noexcept = 0;
};

}  // namespace h5feed
