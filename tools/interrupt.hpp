// Ctrl-C that unwinds the stack, so that unfinished files are removed.
#pragma once

#include <exception>

namespace h5feed::cli {

/// Thrown where work notices that the user wants it to end.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(int signal) noexcept : signal_(signal) {}
  const char* what() const noexcept override { return "interrupted"; }
  int signal() const noexcept { return signal_; }

 private:
  int signal_;
};

/// From now on SIGINT, SIGTERM and SIGHUP are only noted; a second one ends the process at once, unless
/// there is an UnfinishedOutput. System calls that wait return EINTR.
void catch_interrupts();

/// While one is in scope no second signal ends the process, so that clean-up is never cut short.
class UnfinishedOutput {
 public:
  UnfinishedOutput() noexcept;
  UnfinishedOutput(const UnfinishedOutput&) = delete;
  UnfinishedOutput& operator=(const UnfinishedOutput&) = delete;
  ~UnfinishedOutput();
};

/// Throws Interrupted once a signal was noted. Thread-safe; call it between pieces of work.
void check_interrupted();

/// The signal that was noted last, and forgets it, so that the next one is noticed too; 0 where there is
/// none. For work that passes signals on instead of ending by them. Thread-safe.
int take_noted_signal() noexcept;

/// Ends the process by `signal`, as if it had not been caught.
[[noreturn]] void end_by_signal(int signal) noexcept;

}  // namespace h5feed::cli
