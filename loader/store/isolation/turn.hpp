// SPDX-License-Identifier: Apache-2.0
// Which thread may use a process that reads metadata.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/mutex.hpp"

namespace h5feed {

/// Guards the turns of all reading processes and how these are reached, and keeps a fork from coming while
/// one is started. Held for moments: never while a reply is awaited or an `InterruptCheck` runs. Never
/// destroyed.
extern Mutex isolation_mutex;

/// A right that one thread at a time has, for as long as a reply may take. A forked process finds it free.
/// Every function is called with `isolation_mutex` locked.
class Turn {
 public:
  Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn();

  /// Returns whether a thread of this process has the turn.
  bool taken() const noexcept H5FEED_REQUIRES(isolation_mutex);

  /// Takes the turn and returns true, or returns false if other threads have it for the next 100 ms. `lock`
  /// is of `isolation_mutex`. Throws std::logic_error that names `file` instead of waiting if this thread has
  /// a turn already, this one or another: it could wait for itself, or for a thread that waits for it.
  bool take(MutexLock& lock, const std::string& file) H5FEED_REQUIRES(isolation_mutex);

  /// Lets the next thread have the turn.
  void give_back() noexcept H5FEED_REQUIRES(isolation_mutex);

 private:
  void forget_parent() noexcept;

  pid_t process_;       // That of the threads that the other members are about
  bool taken_ = false;  // Whether one has the turn
  CondVar given_back_;
};

}  // namespace h5feed
