// SPDX-License-Identifier: Apache-2.0
// Spelling of options in messages. By default messages use C++ syntax: `.data = "images"`. The program
// h5feed, whose users type `--data images`, installs its own spelling once; every message of the library
// follows.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace h5feed {

/// Returns the text that users type for the option that C++ calls `name` ("data", "tiles.size"). Returns
/// nullopt if they have no such option; messages then keep the C++ name. Must be thread-safe.
using OptionSpelling = std::optional<std::string> (*)(std::string_view name);

/// Sets the spelling for the whole process; null restores C++ syntax. Thread-safe.
void spell_options(OptionSpelling spelling) noexcept;

/// Returns false if the users of this process cannot set the option that C++ calls `name`: the program has a
/// spelling, but no such option. A message then does not advise to set it.
bool can_be_set(std::string_view name);

/// Name of the image size for `spelled`: two options in C++, one option in the program.
inline constexpr std::string_view kImageSize = "images.height and images.width";

/// Returns the option as users type it: `batch_size`, or `--batch-size`.
std::string spelled(std::string_view name);

/// Returns the option with an unquoted value: `input_layout = NCHW`, or `--input-layout NCHW`.
std::string spelled(std::string_view name, std::string_view value);

/// An option whose value is the path of an HDF5 dataset.
struct PathOption {
  std::string name = "data";
  std::string owner = {};  ///< The part that has the option ("field \"depth\""); empty: the opened dataset

  /// Returns the option with a path: `.data = "images"`, or `--data images`. If `owner` is set, always in C++
  /// syntax.
  std::string spelled(std::string_view path) const;

  /// The option as users type it, if another process tells; it need not be known there.
  std::optional<std::string> typed = {};

  /// Returns a copy with `typed`, for a process that does not have the spelling of this one.
  PathOption as_typed() const;

  /// Compares the options, however they are spelled.
  bool operator==(const PathOption& other) const { return name == other.name && owner == other.owner; }
};

}  // namespace h5feed
