// SPDX-License-Identifier: Apache-2.0
// Runs of `h5feed bench` on a small file.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/run_program.hpp"
#include "support/temp_dir.hpp"

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

/// Runs `h5feed bench a.h5 --json` with `options` and returns what it printed. Expects exit code 0.
inline Json bench_json(const TempDir& dir, const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"bench", "a.h5", "--json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  if (std::ranges::find(options, "--time-budget") == options.end()) {
    arguments.insert(arguments.end(), {"--time-budget", "200ms"});
  }
  const ProgramResult result = run_program(dir.path(), arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return Json::parse(result.out);
}

}  // namespace h5feed::test
