// SPDX-License-Identifier: Apache-2.0
// std::mutex with Clang's thread-safety annotations (-Wthread-safety), so that the compiler checks which
// mutex guards which field. For other compilers the annotations are empty.
// Annotations: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define H5FEED_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define H5FEED_THREAD_ANNOTATION(x)
#endif

#define H5FEED_CAPABILITY(x) H5FEED_THREAD_ANNOTATION(capability(x))
#define H5FEED_SCOPED_CAPABILITY H5FEED_THREAD_ANNOTATION(scoped_lockable)
#define H5FEED_GUARDED_BY(x) H5FEED_THREAD_ANNOTATION(guarded_by(x))
#define H5FEED_REQUIRES(...) H5FEED_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define H5FEED_EXCLUDES(...) H5FEED_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define H5FEED_ACQUIRE(...) H5FEED_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define H5FEED_RELEASE(...) H5FEED_THREAD_ANNOTATION(release_capability(__VA_ARGS__))

namespace h5feed {

class CondVar;

/// An annotated std::mutex. Lock it with `MutexLock` only.
class H5FEED_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

/// Locks a `Mutex` for its own lifetime.
class H5FEED_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) H5FEED_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() H5FEED_RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

/// A condition variable for `Mutex`. Waits take no predicate: callers loop, so that the analysis sees that
/// guarded fields are read with the mutex held. Waits may wake up spuriously.
class CondVar {
 public:
  /// Blocks until notified; releases the mutex while it waits.
  void wait(MutexLock& lock) { cond_.wait(lock.lock_); }

  /// Blocks until notified or until `deadline`. Returns false if the deadline passed.
  template <typename Clock, typename Duration>
  bool wait_until(MutexLock& lock, std::chrono::time_point<Clock, Duration> deadline) {
    return cond_.wait_until(lock.lock_, deadline) == std::cv_status::no_timeout;
  }

  void notify_one() noexcept { cond_.notify_one(); }
  void notify_all() noexcept { cond_.notify_all(); }

 private:
  std::condition_variable cond_;
};

}  // namespace h5feed
