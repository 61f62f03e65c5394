// SPDX-License-Identifier: Apache-2.0
// A short run of the user's command, watched as `monitor` does.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/fault.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {

/// How a command ran.
struct TrialRun {
  std::string command;         ///< its words
  int exit_code = 0;           ///< 128 + N if signal N ended it
  bool cut_short = false;      ///< it was ended because its time was over
  double seconds = 0;          ///< how long it ran
  bool starts_loader = false;  ///< a loader of h5feed published figures
  double samples_per_s = 0;    ///< what the loaders delivered on average while their epochs ran; 0: nothing
  std::string verdict;         ///< of `monitor`
  std::vector<Fault> faults;   ///< what `monitor` found, and a command that failed

  /// Returns the run as text, without its faults.
  std::string text() const;
  /// Returns the run as JSON, without its faults.
  Json to_json() const;
};

/// Runs `command` until it ends, at most for about `limit`; then it is told to end (SIGTERM) and killed
/// 5 s later, with all of its descendants. Its output goes to stderr. Blocks. Throws Error if it cannot be
/// started, and Interrupted once it has ended.
TrialRun try_command(const std::vector<std::string>& command, std::chrono::nanoseconds limit);

}  // namespace h5feed::cli
