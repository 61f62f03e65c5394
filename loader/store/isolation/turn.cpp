// SPDX-License-Identifier: Apache-2.0
#include "store/isolation/turn.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

#include "base/clock.hpp"

namespace h5feed {

constinit Mutex isolation_mutex;

namespace {

// The number of turns that this thread has.
thread_local int held = 0;

// The lock of the thread that forks: the new process then finds the mutex free.
std::unique_ptr<MutexLock> turn_fork_lock;

void before_turn_fork() {
  auto lock = std::make_unique<MutexLock>(isolation_mutex);
  turn_fork_lock = std::move(lock);
}

void after_turn_fork() { const auto lock = std::move(turn_fork_lock); }

void after_turn_fork_in_child() {
  held = 0;
  after_turn_fork();
}

// Registered when the library is loaded: a thread may fork while another asks for the first time.
[[maybe_unused]] const int turn_fork_handlers =
    pthread_atfork(before_turn_fork, after_turn_fork, after_turn_fork_in_child);

}  // namespace

Turn::Turn() : process_(::getpid()) {}

Turn::~Turn() { forget_parent(); }

bool Turn::taken() const noexcept { return taken_ && process_ == ::getpid(); }

bool Turn::take(MutexLock& lock, const std::string& file) {
  forget_parent();
  if (taken_ && held > 0) {
    throw std::logic_error(fmt::format(
        "{}: cannot be read within an InterruptCheck, in Python a signal handler, that was called while "
        "another answer of isolation = process is awaited; read it after that has returned",
        file));
  }
  constexpr std::chrono::milliseconds kLongest(100);
  if (taken_) given_back_.wait_until(lock, Clock::now() + kLongest);
  if (taken_) return false;
  taken_ = true;
  ++held;
  return true;
}

void Turn::give_back() noexcept {
  taken_ = false;
  --held;
  given_back_.notify_one();
}

// A forked process has none of the threads that wait. A condition variable that has forgotten nobody would
// wait for them when it is notified or destroyed.
void Turn::forget_parent() noexcept {
  if (process_ == ::getpid()) return;
  process_ = ::getpid();
  taken_ = false;
  new (&given_back_) CondVar;
}

}  // namespace h5feed
