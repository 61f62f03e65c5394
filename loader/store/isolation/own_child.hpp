// SPDX-License-Identifier: Apache-2.0
// A child process that is this process's to end, even if other code of the program has waited for it.
#pragma once

#include <sys/types.h>

#include <optional>

#include "base/files/file_descriptor.hpp"

namespace h5feed {

/// How a process ended.
struct ProcessEnd {
  bool by_signal = false;
  int number = 0;  ///< The signal, or the exit code
};

/// A child that was spawned. A program may wait for any child (`waitpid(-1, …)`) or ignore SIGCHLD, and the
/// number of a child that has ended is then free for another process: so it is addressed by a descriptor
/// (pidfd_open(2)), and by its number only on kernels without (before 5.4), where waiting by one fails. Not
/// thread-safe.
class OwnChild {
 public:
  OwnChild() = default;
  /// Takes over a child of this process that has just started.
  explicit OwnChild(pid_t pid);

  /// Returns whether there is a child, and this process started it: a fork has none.
  bool here() const noexcept;

  /// Kills the child if it still runs, and waits for its end, a moment. Returns how it ended; nothing if
  /// other code has waited for it, or there is none. Then there is no child.
  std::optional<ProcessEnd> end() noexcept;

 private:
  pid_t pid_ = -1;
  pid_t owner_ = -1;
  FileDescriptor handle_;
};

}  // namespace h5feed
