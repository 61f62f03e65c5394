// What something is refused with.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace h5feed::test {

/// The text of the Exception that `make()` throws; "accepted" where it throws none.
template <typename Exception, typename Make>
std::string refusal_of(const Make& make) {
  try {
    make();
  } catch (const Exception& error) {
    return error.what();
  }
  return "accepted";
}

/// `text` as one who works in `folder` sees it: its files have no folder in front.
inline std::string without_folder(std::string text, const std::filesystem::path& folder) {
  const std::string prefix = folder.string() + "/";
  for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at))
    text.erase(at, prefix.size());
  return text;
}

/// Both: what one who works in `folder` is told.
template <typename Exception, typename Make>
std::string refusal_in(const std::filesystem::path& folder, const Make& make) {
  return without_folder(refusal_of<Exception>(make), folder);
}

}  // namespace h5feed::test
