// SPDX-License-Identifier: Apache-2.0
// Findings of `doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace h5feed::cli {

/// How much a fault costs.
enum class Severity : std::uint8_t {
  serious,  ///< a multiple of the time or of the memory, or the training does not run
  minor     ///< less
};

/// A fault, and what mends it.
struct Fault {
  Severity severity = Severity::serious;
  std::string name;               ///< fixed name for programs: "cut_samples"
  std::string what;               ///< what is wrong and what it costs, without a full stop
  std::vector<std::string> mend;  ///< commands and lines of code that mend it, the best first
};

}  // namespace h5feed::cli
