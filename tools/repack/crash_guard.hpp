// SPDX-License-Identifier: Apache-2.0
// Goes on in a child process, so that a crash there ends in an error of this one.
#pragma once

#include <functional>
#include <optional>

namespace h5feed::cli {

/// Callbacks of `go_on_in_child` for a child process that was ended by a signal. Both are called in the
/// process that waits for the child, first `clean_up`.
struct EndedChild {
  /// Removes the files that the child left unfinished.
  std::function<void()> clean_up;
  /// Throws the error to report, unless the signal is one that interrupts.
  std::function<void(int signal)> crashed;
};

/// Goes on in a child process, and returns there without a value. In the process that called, waits until the
/// child has ended, passes on to it the signals that `catch_interrupts` notes, and returns its exit code. A
/// child that does not obey within two seconds, as libhdf5 looks for no signals while it copies an object, is
/// killed, and Interrupted thrown. If another signal ended the child, calls `ended`; for those that
/// interrupt, then ends this process by the same one. The child is killed when this process ends before it.
/// Call it while the process has one thread, and no file of libhdf5 open: the child has a copy of all that is
/// in memory (fork(2)). Throws Error if no process can be started, and what `ended.crashed` throws.
std::optional<int> go_on_in_child(const EndedChild& ended);

}  // namespace h5feed::cli
