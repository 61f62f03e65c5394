// SPDX-License-Identifier: Apache-2.0
#include "tools/program/proc_text.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/files/file_descriptor.hpp"

namespace h5feed::cli {

std::string read_proc_text(const std::filesystem::path& path, std::size_t most) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 8192> part;
  while (file.valid() && text.size() < most) {
    const ssize_t bytes = ::read(file.get(), part.data(), std::min(part.size(), most - text.size()));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(bytes));
  }
  return text;
}

std::string_view next_line(std::string_view& text) noexcept {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

std::string_view Words::next() noexcept {
  constexpr std::string_view kBlanks = " \t\n";
  rest_.remove_prefix(std::min(rest_.size(), rest_.find_first_not_of(kBlanks)));
  const std::string_view word = rest_.substr(0, rest_.find_first_of(kBlanks));
  rest_.remove_prefix(word.size());
  return word;
}

void Words::skip(int count) noexcept {
  for (int i = 0; i < count; ++i) next();
}

}  // namespace h5feed::cli
