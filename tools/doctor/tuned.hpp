// SPDX-License-Identifier: Apache-2.0
// Recommendation of `tune` for samples that are stored badly.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "tools/doctor/examined.hpp"

namespace h5feed::cli {

/// Returns the command that stores the samples as `tune` recommends, with the samples/s that it predicts on
/// so many cores. Takes about `duration`, and writes a temporary file. Empty if the time is too short, or if
/// the samples are not rows of one dataset, which are all that `tune` stores. Blocks. Throws Interrupted.
std::optional<std::string> tuned_command(const Examined& examined, unsigned cpus,
                                         std::chrono::nanoseconds duration);

}  // namespace h5feed::cli
