// SPDX-License-Identifier: Apache-2.0
// Hook for timelines (NVTX, Chrome trace): start and end of each stage on each thread.
#pragma once

#include <cstdint>

#include "h5feed/export.hpp"

namespace h5feed {

/// Stages that a loader reports. `plan` runs on workers, `read_decode` and `gather` on workers or reader
/// threads (without workers, all run on the consumer's thread); `transfer` enqueues copies and kernels for a
/// GPU, whose execution is not traced; `wait` is the consumer waiting in `next()`.
enum class Stage : std::uint8_t { plan, read_decode, gather, transfer, wait };

/// Returns the name of a stage for timelines: "plan", "read+decode", …
H5FEED_EXPORT const char* name_of(Stage stage) noexcept;

/// Receives stage boundaries. Called on the thread that does the work, from many threads concurrently.
/// Implementations must be thread-safe and must not block or throw.
class H5FEED_EXPORT TraceSink {
 public:
  virtual ~TraceSink() = default;
  /// Called when a stage begins. `batch` is the number of the batch within the life of the loader, over all
  /// epochs.
  virtual void begin(Stage stage, std::uint64_t batch) noexcept = 0;
  /// Called when a stage ends, on the thread that began it. `batch` is the number given to `begin`.
  virtual void end(Stage stage, std::uint64_t batch) noexcept = 0;
};

}  // namespace h5feed
