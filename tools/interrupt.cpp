#include "tools/interrupt.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace h5feed::cli {
namespace {

std::atomic<int> noted_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "set from a signal handler");

extern "C" void note_signal(int signal) { noted_signal.store(signal, std::memory_order_relaxed); }

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  // SA_RESETHAND: the user's second Ctrl-C always works. No SA_RESTART: waits end.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    // A signal that the caller had ignored (nohup) stays ignored.
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    ::sigaction(signal, &action, nullptr);
  }
}

void check_interrupted() {
  const int signal = noted_signal.load(std::memory_order_relaxed);
  if (signal != 0) throw Interrupted(signal);
}

void end_by_signal(int signal) noexcept {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  ::_exit(128 + signal);
}

}  // namespace h5feed::cli
