// SPDX-License-Identifier: Apache-2.0
#include "tools/report/html.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "base/byte_units.hpp"
#include "base/terminal_text.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
namespace {

// Returns the bytes of the character that valid UTF-8 text starts with.
std::size_t character_size(std::string_view text) {
  std::size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80) ++size;
  return size;
}

}  // namespace

std::string escaped(std::string_view text) {
  const std::string clean = printable(text);
  std::string html;
  html.reserve(clean.size());
  for (std::string_view rest = clean; !rest.empty();) {
    const std::string_view character = rest.substr(0, character_size(rest));
    rest.remove_prefix(character.size());
    if (character == "&") {
      html += "&amp;";
    } else if (character == "<") {
      html += "&lt;";
    } else if (character == ">") {
      html += "&gt;";
    } else if (character == "\"") {
      html += "&quot;";
    } else if (character == "'") {
      html += "&#39;";
    } else {
      html += character;
    }
  }
  return html;
}

std::string shortened(std::string_view text, std::size_t most) { return abridged(printable(text), most); }

std::string exact_number(double value) { return fmt::format("{}", value); }

std::string shown_number(double value) {
  constexpr double kThousand = 1000, kLargest = 1e15;
  const double size = std::abs(value);
  if (size >= kLargest) return fmt::format("{:.3g}", value);
  if (size >= kThousand - 0.5)
    return (value < 0 ? "-" : "") + format_count(static_cast<std::uint64_t>(std::llround(size)));
  if (value == std::floor(value)) return fmt::format("{:.0f}", value);
  return fmt::format("{:.3g}", value);
}

}  // namespace h5feed::cli
