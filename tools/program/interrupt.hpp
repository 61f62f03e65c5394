// SPDX-License-Identifier: Apache-2.0
// Makes Ctrl-C unwind the stack, so that unfinished files are removed.
#pragma once

#include <exception>

namespace h5feed::cli {

/// Thrown when work notices that the user has interrupted it.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(int signal) noexcept : signal_(signal) {}
  const char* what() const noexcept override { return "interrupted"; }
  int signal() const noexcept { return signal_; }

 private:
  int signal_;
};

/// From now on SIGINT, SIGTERM and SIGHUP are only recorded; a second one ends the process at once unless an
/// UnfinishedOutput exists. Signals that the caller ignored stay ignored. Blocking system calls return EINTR.
void catch_interrupts();

/// While an instance exists, a second signal does not end the process, so that clean-up is never cut short.
/// Thread-safe.
class UnfinishedOutput {
 public:
  UnfinishedOutput() noexcept;
  UnfinishedOutput(const UnfinishedOutput&) = delete;
  UnfinishedOutput& operator=(const UnfinishedOutput&) = delete;
  ~UnfinishedOutput();
};

/// Throws Interrupted if a signal has been recorded. Thread-safe; call between pieces of work.
void check_interrupted();

/// Returns the last recorded signal and clears it, so that the next one is noticed too; 0 if there is none.
/// For work that forwards signals instead of ending by them. Thread-safe.
int take_noted_signal() noexcept;

/// Ends the process by `signal`, with its default action.
[[noreturn]] void end_by_signal(int signal) noexcept;

}  // namespace h5feed::cli
