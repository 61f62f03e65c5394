// SPDX-License-Identifier: Apache-2.0
#include "tools/program/interrupt.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <initializer_list>

#include "base/interrupt.hpp"

namespace h5feed::cli {
namespace {

std::atomic<int> noted_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "set from a signal handler");

std::atomic<int> unfinished_outputs{0};

// A signal that the process above passes on may have come from the terminal as well, which is not twice.
extern "C" void note_signal(int signal, siginfo_t* info, void*) {
  const bool again = noted_signal.exchange(signal, std::memory_order_relaxed) != 0;
  const bool passed_on = info->si_code == SI_QUEUE && info->si_pid == ::getppid();
  if (!again || passed_on || unfinished_outputs.load(std::memory_order_relaxed) > 0) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void catch_interrupts() {
  set_stop_check(check_interrupted);
  struct sigaction action {};
  action.sa_sigaction = note_signal;
  action.sa_flags = SA_SIGINFO;  // no SA_RESTART: blocking calls return EINTR
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    // A signal that the caller had ignored (nohup) stays ignored.
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    ::sigaction(signal, &action, nullptr);
  }
}

UnfinishedOutput::UnfinishedOutput() noexcept { unfinished_outputs.fetch_add(1, std::memory_order_relaxed); }
UnfinishedOutput::~UnfinishedOutput() { unfinished_outputs.fetch_sub(1, std::memory_order_relaxed); }

void check_interrupted() {
  const int signal = noted_signal.load(std::memory_order_relaxed);
  if (signal != 0) throw Interrupted(signal);
}

int take_noted_signal() noexcept { return noted_signal.exchange(0, std::memory_order_relaxed); }

void end_by_signal(int signal) noexcept {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  ::_exit(128 + signal);
}

}  // namespace h5feed::cli
