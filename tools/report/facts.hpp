// SPDX-License-Identifier: Apache-2.0
// Statements of a report about its inputs: their settings and their verdicts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/report/input.hpp"

namespace h5feed::cli {

/// One setting of all inputs.
struct SettingRow {
  std::string name;                                ///< "settings.batch_size"
  std::vector<std::optional<std::string>> values;  ///< By input; unset where the input does not tell

  /// Returns whether two inputs tell different values, or only some inputs of a kind tell one.
  bool differs(const std::vector<Input>& inputs) const;
};

/// Returns the settings of all inputs: options, file, machine, versions of `bench`; workers of loaders; GPUs
/// and length of records.
std::vector<SettingRow> settings_of(const std::vector<Input>& inputs);

/// A sentence of a verdict.
struct VerdictLine {
  std::string text;
  std::vector<std::string> advice = {};  ///< What to try
};

/// Verdict and findings of one input.
struct InputVerdict {
  std::vector<VerdictLine> lines;     ///< The verdict
  std::vector<VerdictLine> findings;  ///< Of `monitor`, in its order
};

/// Returns the verdict on an input, in the words of the command that made it. For a result of `bench`,
/// compares it with `first`, if that is another one.
InputVerdict verdict_of(const Input& input, const Input* first);

}  // namespace h5feed::cli
