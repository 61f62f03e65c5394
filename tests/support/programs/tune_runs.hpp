// SPDX-License-Identifier: Apache-2.0
// Runs of `h5feed tune` that do not depend on how fast the machine is.
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/programs/run_program.hpp"

namespace h5feed::test {

/// Runs `h5feed tune` with `arguments`, which include --json, in `directory`: with twice the time again as
/// long as the program says that the time is too short, or leaves out candidates. Returns the last result.
inline ProgramResult tune_with_enough_time(const std::filesystem::path& directory,
                                           const std::vector<std::string>& arguments) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::minutes(5);
  for (std::chrono::milliseconds budget(500);; budget *= 2) {
    std::vector<std::string> all = {"tune", "--time-budget", std::to_string(budget.count()) + "ms"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    ProgramResult result = run_program(directory, all);
    const bool hurried =
        result.exit_code == 0
            ? nlohmann::json::parse(result.out).at("candidates_left_out") > 0
            : result.err.find(" is too short for this file on this machine;") != std::string::npos;
    if (!hurried || budget > kLongest) return result;
  }
}

}  // namespace h5feed::test
