// SPDX-License-Identifier: Apache-2.0
// What a GPU probe saw while epochs ran.
#pragma once

#include <memory>
#include <utility>

#include "base/mutex.hpp"
#include "h5feed/gpu_probe.hpp"

namespace h5feed {

/// Started and stopped with the epochs by one thread; any thread asks. Without a probe it costs a test for
/// null.
class GpuWindow {
 public:
  explicit GpuWindow(std::shared_ptr<const GpuProbe> probe) : probe_(std::move(probe)) {}

  void start() {
    if (!probe_) return;
    stop();
    const GpuUse now = probe_->use();
    const MutexLock lock(mutex_);
    begin_ = now;
    running_ = true;
  }
  void stop() {
    if (!probe_) return;
    const GpuUse now = probe_->use();
    const MutexLock lock(mutex_);
    if (std::exchange(running_, false)) total_ += now - begin_;
  }
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
