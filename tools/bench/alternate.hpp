// SPDX-License-Identifier: Apache-2.0
// `bench --alternate`: measures two programs or two settings in turn, and whether they differ.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/settings.hpp"
#include "tools/measure/ratio_test.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {

/// Error probability of `bench --alternate`, shared by the tests of samples/s and of CPU time: it calls equal
/// programs different in at most one of a hundred runs.
inline constexpr double kAlternateAlpha = 0.01;

/// Default time of a whole comparison.
inline constexpr const char* kAlternateTimeBudget = "60s";

/// Arguments of `bench --alternate`.
struct AlternateRequest {
  BenchSettings settings;  ///< those that both sides share; `time_budget` is that of the whole comparison
  /// Two texts: words separated by spaces, of which NAME=VALUE is a setting and any other the program to run.
  std::vector<std::string> sides;
  std::vector<std::string> arguments;  ///< words of the command line of both sides, after "bench"
  std::string num_workers;             ///< for the sides that do not set it
  /// Exit code 1 if the second side is significantly slower, or needs more CPU time, by more than this share.
  /// Unset: exit code 0.
  std::optional<double> max_loss;
};

/// One side of a comparison.
struct AlternateSide {
  std::string text;                    ///< as typed
  std::string program;                 ///< this program, if the text names none
  std::vector<std::string> arguments;  ///< its own words of the command line
};

/// Parses one side, and checks its settings. Throws OptionError.
AlternateSide parse_side(const std::string& text, const AlternateRequest& request);

/// Returns the sentences of a result: by how much the second series is faster or slower than the first, its
/// interval, and whether that is significant.
std::string ratio_verdict(const RatioEstimate& estimate, double alpha);

/// Returns the sentence about the CPU time per sample; empty if there are too few pairs for a test.
std::string cpu_verdict(const RatioEstimate& estimate, double alpha);

/// Runs both sides in turn, in the order A B B A A B …, until the time is over or the interval is narrow, and
/// prints and exports the medians and the result of the test. Returns the exit code. Blocks. Throws
/// OptionError, and Error if a program cannot be run or prints no result.
int bench_alternate(const AlternateRequest& request, const OutputOptions& output);

}  // namespace h5feed::cli
