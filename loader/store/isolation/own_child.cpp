// SPDX-License-Identifier: Apache-2.0
#include "store/isolation/own_child.hpp"

#include <sys/wait.h>
#include <unistd.h>
extern "C" {  // The header of glibc 2.36 does not say so itself.
#include <sys/pidfd.h>
}

#include <cerrno>
#include <csignal>
#include <utility>

namespace h5feed {

OwnChild::OwnChild(pid_t pid) : pid_(pid), owner_(::getpid()), handle_(::pidfd_open(pid, 0)) {}

bool OwnChild::here() const noexcept { return pid_ > 0 && owner_ == ::getpid(); }

std::optional<ProcessEnd> OwnChild::end() noexcept {
  std::optional<ProcessEnd> ended;
  if (here()) {
    const bool named = !handle_.valid();
    named ? ::kill(pid_, SIGKILL) : ::pidfd_send_signal(handle_.get(), SIGKILL, nullptr, 0);
    siginfo_t info = {};
    int waited = -1;
    do {
      waited =
          ::waitid(named ? P_PID : P_PIDFD, static_cast<id_t>(named ? pid_ : handle_.get()), &info, WEXITED);
    } while (waited != 0 && errno == EINTR);
    if (waited == 0) ended = ProcessEnd{.by_signal = info.si_code != CLD_EXITED, .number = info.si_status};
  }
  pid_ = -1;
  handle_.reset();
  return ended;
}

}  // namespace h5feed
