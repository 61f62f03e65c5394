// How messages write options. The library speaks to C++ programs: `.data = "images"`. The program h5feed,
// whose users type `--data images`, installs its own spelling once, and every message of the library follows.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace h5feed {

/// Returns the text that the process's users type for the option that C++ calls `name` ("data",
/// "tiles.size"); empty: they have no such option, and messages keep the name in C++.
using OptionSpelling = std::optional<std::string> (*)(std::string_view name);

/// For the whole process, from now on; null restores C++. Thread-safe.
void spell_options(OptionSpelling spelling) noexcept;

/// Two options in C++, one in the program.
inline constexpr std::string_view kImageSize = "images.height and images.width";

/// The option: `batch_size`, or `--batch-size`.
std::string spelled(std::string_view name);

/// The option with a value that is no text: `input_layout = NCHW`, or `--input-layout NCHW`.
std::string spelled(std::string_view name, std::string_view value);

/// An option whose value is the path of a dataset.
struct PathOption {
  std::string name = "data";
  std::string owner = {};  ///< what has the option ("field \"depth\""); empty: the opened dataset

  /// With a path: `.data = "images"`, or `--data images`; with an owner always as in C++.
  std::string spelled(std::string_view path) const;

  bool operator==(const PathOption&) const = default;
};

}  // namespace h5feed
