// SPDX-License-Identifier: Apache-2.0
// Whether the process was forked.
#pragma once

#include <cstdint>

namespace h5feed {

/// Returns how often this process, and those it was forked from, were forked since h5feed was loaded. Threads
/// do not survive a fork: what a mutex guards must be left alone in a child, because the thread that held it
/// then may not exist there. Thread-safe.
std::uint64_t fork_generation() noexcept;

}  // namespace h5feed
