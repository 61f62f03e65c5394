// SPDX-License-Identifier: Apache-2.0
// Text files in tests.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace h5feed::test {

/// Returns the content of a file so far; empty if there is no such file.
inline std::string text_so_far(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the content of a file. Throws std::runtime_error if it cannot be read.
inline std::string text_of(const std::filesystem::path& path) {
  if (!std::ifstream(path)) throw std::runtime_error(path.string() + " cannot be read");
  return text_so_far(path);
}

/// Returns the lines of a text.
inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace h5feed::test
