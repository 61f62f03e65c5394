// SPDX-License-Identifier: Apache-2.0
// Readings of a GPU probe, limited to the time in which epochs ran.
#pragma once

#include <memory>
#include <utility>

#include "base/mutex.hpp"
#include "h5feed/gpu_probe.hpp"

namespace h5feed {

/// Sums the readings of a GPU probe while epochs run. `start()` and `stop()` are for one thread; `total()` is
/// thread-safe. Without a probe every call costs a null check.
class GpuWindow {
 public:
  /// Shares ownership of `probe`, which may be null.
  explicit GpuWindow(std::shared_ptr<const GpuProbe> probe) : probe_(std::move(probe)) {}

  /// Starts an epoch; ends a running one first.
  void start() {
    if (!probe_) return;
    stop();
    const GpuUse now = probe_->use();
    const MutexLock lock(mutex_);
    begin_ = now;
    running_ = true;
  }
  /// Ends the running epoch, if any, and adds its readings to the total.
  void stop() {
    if (!probe_) return;
    const GpuUse now = probe_->use();
    const MutexLock lock(mutex_);
    if (std::exchange(running_, false)) total_ += now - begin_;
  }
  /// Returns the readings of all epochs, including the running one so far; empty without a probe.
  GpuUse total() const {
    if (!probe_) return {};
    GpuUse all, begin;
    {
      const MutexLock lock(mutex_);
      all = total_;
      if (!running_) return all;
      begin = begin_;
    }
    all += probe_->use() - begin;
    return all;
  }

 private:
  const std::shared_ptr<const GpuProbe> probe_;
  mutable Mutex mutex_;
  GpuUse total_ H5FEED_GUARDED_BY(mutex_);
  GpuUse begin_ H5FEED_GUARDED_BY(mutex_);
  bool running_ H5FEED_GUARDED_BY(mutex_) = false;
};

}  // namespace h5feed
