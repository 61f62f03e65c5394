// SPDX-License-Identifier: Apache-2.0
#include "h5feed/error.hpp"

#include <fmt/format.h>

namespace h5feed {
namespace {

// Escapes control characters: a name with a newline must not split a message, and an escape sequence must not
// change the reader's terminal.
std::string on_one_line(const std::string& text) {
  std::string line;
  line.reserve(text.size());
  for (const char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      line += c;
    }
  }
  return line;
}

}  // namespace

Error::Error(const std::string& message) : std::runtime_error(on_one_line(message)) {}

}  // namespace h5feed
