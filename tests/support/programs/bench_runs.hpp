// SPDX-License-Identifier: Apache-2.0
// Runs of `h5feed bench` on a small file.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {

using Json = nlohmann::json;

inline constexpr std::uint64_t kSamples = 640;
inline constexpr std::uint64_t kSampleBytes = 3 * 16 * 16;

/// Writes a.h5 with `kSamples` samples (3,16,16) of uint8, in chunks of 64 samples or of `more.front()`.
inline void write_samples(const TempDir& dir, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {
      "generate", "a.h5",    "--samples", std::to_string(kSamples),
      "--shape",  "3,16,16", "--chunk",   more.empty() ? "64" : more.front()};
  ASSERT_EQ(run_program(dir.path(), arguments).exit_code, 0);
}

/// Runs `h5feed bench a.h5 --json` with `options`, which leave out --time-budget, and returns what it
/// printed: of rows that measured whole epochs, however slow the machine is. Expects exit code 0.
inline Json bench_json(const TempDir& dir, const std::vector<std::string>& options) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::minutes(5);
  for (std::chrono::milliseconds budget(200);; budget *= 2) {
    std::vector<std::string> arguments = {"bench", "a.h5", "--json", "--time-budget",
                                          std::to_string(budget.count()) + "ms"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ProgramResult result = run_program(dir.path(), arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    Json json = Json::parse(result.out);
    const bool whole = std::ranges::all_of(
        json.at("rows"), [](const Json& row) { return row.value("epoch_share", 1.0) >= 1; });
    if (whole || budget > kLongest) return json;
  }
}

}  // namespace h5feed::test
