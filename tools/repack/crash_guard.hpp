// SPDX-License-Identifier: Apache-2.0
// Goes on in a child process, so that a crash there ends in an error of this one.
#pragma once

#include <functional>
#include <optional>

namespace h5feed::cli {

/// Goes on in a child process, and returns there without a value. In the process that called, waits until the
/// child has ended, passes on to it the signals that `catch_interrupts` notes, and returns its exit code. If
/// a signal ended the child, calls `crashed` with it, which should throw; for those that interrupt, ends this
/// process by the same one. The child is killed when this process ends before it. Call it while the process
/// has one thread, and no file of libhdf5 open: the child has a copy of all that is in memory (fork(2)).
/// Throws Error if no process can be started, and what `crashed` throws.
std::optional<int> go_on_in_child(const std::function<void(int signal)>& crashed);

}  // namespace h5feed::cli
