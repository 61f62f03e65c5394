// SPDX-License-Identifier: Apache-2.0
// Where long calls may end early.
#pragma once

namespace h5feed {

/// Calls what `set_stop_check` has set, if anything, and the newest `InterruptCheck` of this thread, if it
/// has one that was not called for 20 ms and is not running. Throws what they throw. Cheap enough to be
/// called for each chunk. Call it without a mutex.
void check_interrupt();

/// Sets what every thread calls where a long call of it may end early: `check` may throw, but must neither
/// block nor call h5feed, as an `InterruptCheck` may. For programs of h5feed's own. Thread-safe.
void set_stop_check(void (*check)()) noexcept;

}  // namespace h5feed
