// SPDX-License-Identifier: Apache-2.0
// Where long calls may end early.
#pragma once

namespace h5feed {

/// Calls the newest `InterruptCheck` of this thread, if it has one that was not called for 20 ms. Throws what
/// that throws. Cheap enough to be called for each chunk.
void check_interrupt();

}  // namespace h5feed
