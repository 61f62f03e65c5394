// SPDX-License-Identifier: Apache-2.0
// Ending long calls early.
#pragma once

#include <chrono>
#include <functional>

#include "h5feed/export.hpp"

namespace h5feed {

/// Lets a program end the long calls of a thread, such as a host language whose users press Ctrl-C. While the
/// object exists, `Dataset::open`, `Dataset::refresh`, `SampleReader::read`, `label_share`,
/// `balanced_weights` and the constructor of `DataLoader`, called on the thread that made the object, call
/// `check` on that thread about every 20 ms, at the latest after one file is opened or one chunk decoded;
/// with `Isolation::process` also while the other process reads, at the latest after 100 ms. An exception of
/// `check` ends the call, which rethrows it.
///
/// `check` may call h5feed, and may destroy datasets and loaders, but must not use the dataset, reader or
/// loader whose call it may end: what it reads of these may throw std::logic_error. It is not called within
/// itself.
///
/// Objects nest: the newest of a thread counts. Destroy them on the thread that made them, the newest first.
class H5FEED_EXPORT InterruptCheck {
 public:
  /// Makes the calls of this thread call `check`, which must not be empty, from 20 ms on. The object that was
  /// the newest before is not called until this one is destroyed.
  explicit InterruptCheck(std::function<void()> check);
  InterruptCheck(const InterruptCheck&) = delete;
  InterruptCheck& operator=(const InterruptCheck&) = delete;
  /// Ends the calls of `check`; the next older object of the thread counts again. Does not block.
  ~InterruptCheck();

 private:
  friend void check_interrupt();

  const std::function<void()> check_;
  InterruptCheck* const outer_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace h5feed
