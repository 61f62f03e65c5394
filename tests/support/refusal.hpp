// SPDX-License-Identifier: Apache-2.0
// Texts of exceptions, for tests of refusals.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace h5feed::test {

/// Returns the text of the Exception that `make()` throws; "accepted" if it throws none.
template <typename Exception, typename Make>
std::string refusal_of(const Make& make) {
  try {
    make();
  } catch (const Exception& error) {
    return error.what();
  }
  return "accepted";
}

/// Returns `text` as seen by a user who works in `folder`: without the folder in front of file names.
inline std::string without_folder(std::string text, const std::filesystem::path& folder) {
  const std::string prefix = folder.string() + "/";
  for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at))
    text.erase(at, prefix.size());
  return text;
}

/// Returns the text of the Exception that `make()` throws, without `folder` in front of file names;
/// "accepted" if it throws none.
template <typename Exception, typename Make>
std::string refusal_in(const std::filesystem::path& folder, const Make& make) {
  return without_folder(refusal_of<Exception>(make), folder);
}

}  // namespace h5feed::test
