// SPDX-License-Identifier: Apache-2.0
// Holds the log while the process forks.
#pragma once

namespace h5feed {

/// Blocks until no other thread writes a log line, and keeps all from writing until `release_log`. One thread
/// at a time.
void hold_log();

/// Ends `hold_log`, on the thread that called it or on its copy in a forked child.
void release_log();

}  // namespace h5feed
