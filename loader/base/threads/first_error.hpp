// SPDX-License-Identifier: Apache-2.0
// The first of the exceptions that several threads throw.
#pragma once

#include <exception>
#include <utility>

#include "base/mutex.hpp"

namespace h5feed {

/// Keeps the first exception that it gets, for the thread that waits for the others. Thread-safe.
class FirstError {
 public:
  /// Keeps `error`, unless there is one already.
  void store(std::exception_ptr error) noexcept {
    const MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
  }

  /// Throws the exception that is kept, if there is one.
  void rethrow() {
    const MutexLock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  Mutex mutex_;
  std::exception_ptr error_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace h5feed
