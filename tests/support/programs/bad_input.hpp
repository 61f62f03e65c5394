// SPDX-License-Identifier: Apache-2.0
// Runs of the program that have to end with one readable line, exit code 1 or 2, and nothing left behind.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "support/programs/run_program.hpp"
#include "tools/program/cli.hpp"

namespace h5feed::test {

using Words = std::vector<std::string>;

/// Each run works in a folder of its own, with good.h5 (/images, 10×3×8×8 u8 in gzip'd chunks of 2, and
/// /labels) and good.idx (the same images).
struct Mistake {
  Words arguments;
  std::string mention;  ///< what the line has to name: the file, or the option
  int exit_code = 1;
  std::size_t notes = 0;  ///< lines in front of it that say what was begun
  RunLimits limits = {.timeout = std::chrono::seconds(60), .main = cli::run_to_end};
  std::function<void(const std::filesystem::path&)> prepare = [](const std::filesystem::path&) {};
};

/// Fails for each that does not end so. Several run at once, in copies of the calling process, which must
/// have no other threads.
void expect_all_refused(const std::vector<Mistake>& mistakes);

/// Returns the limits of a run of the built program as a process of its own, which two kinds of rows need:
/// file modes that apply to root too, and work with threads, which a sanitizer may not see in a forked
/// process.
inline RunLimits as_built() { return {.timeout = std::chrono::seconds(60)}; }

/// Returns `words` with the first `pattern` in each word replaced by `value`.
Words with(Words words, std::string_view pattern, const std::string& value);

/// Returns the name of a table's row, as the name of its test.
inline constexpr auto kNameOfRow = [](const auto& row) { return std::string(row.param.name); };

}  // namespace h5feed::test
