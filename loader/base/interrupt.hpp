// SPDX-License-Identifier: Apache-2.0
// Where long calls may end early.
#pragma once

namespace h5feed {

/// Calls the newest `InterruptCheck` of this thread, if it has one that was not called for 20 ms and is not
/// running. Throws what that throws. Cheap enough to be called for each chunk. Call it without a mutex.
void check_interrupt();

/// Sets what every thread calls that waits for the process of `isolation = process`: `check` may throw, but
/// must neither block nor call h5feed, as an `InterruptCheck` may. For programs of h5feed's own. Thread-safe.
void set_stop_check(void (*check)()) noexcept;

/// Calls what `set_stop_check` has set, if anything. Throws what that throws.
void check_stop();

}  // namespace h5feed
