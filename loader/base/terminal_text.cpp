// SPDX-License-Identifier: Apache-2.0
#include "base/terminal_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace h5feed {
namespace {

// U+0000 to U+001F, U+007F to U+009F.
bool is_control(std::string_view character) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  return character.size() == 2 && byte(0) == 0xC2 && byte(1) < 0xA0;
}

bool turns_text(std::string_view character) noexcept {
  constexpr std::array<std::string_view, 12> kTurning = {"\u061C", "\u200E", "\u200F", "\u202A",
                                                         "\u202B", "\u202C", "\u202D", "\u202E",
                                                         "\u2066", "\u2067", "\u2068", "\u2069"};
  return std::find(kTurning.begin(), kTurning.end(), character) != kTurning.end();
}

// Calls `take(character, length)` for each character, and for each byte that starts none, whose length is 0.
template <typename Take>
void for_each_character(std::string_view text, const Take& take) {
  while (!text.empty()) {
    const std::size_t length = character_bytes(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(1, length));
    take(character, length);
    text.remove_prefix(character.size());
  }
}

}  // namespace

std::size_t character_bytes(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and values beyond U+10FFFF.
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
      (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return length;
}

bool controls_display(std::string_view character) noexcept {
  return is_control(character) || turns_text(character);
}

unsigned code_point(std::string_view character) {
  constexpr std::array<unsigned, 3> kFirstBits = {0x7F, 0x1F, 0x0F};
  unsigned number = static_cast<unsigned char>(character.front()) & kFirstBits.at(character.size() - 1);
  for (const char c : character.substr(1)) number = number << 6U | (static_cast<unsigned char>(c) & 0x3FU);
  return number;
}

bool is_printable(std::string_view text) noexcept {
  bool printable = true;
  for_each_character(text, [&](std::string_view character, std::size_t length) {
    printable = printable && length > 0 && !controls_display(character);
  });
  return printable;
}

std::string without_controls(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for_each_character(text, [&](std::string_view character, std::size_t length) {
    if (length == 0 || controls_display(character)) {
      result += '?';
    } else {
      result += character;
    }
  });
  return result;
}

std::string on_one_line(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  for_each_character(text, [&](std::string_view character, std::size_t length) {
    if (length == 0 || !controls_display(character)) {
      line += character;
    } else if (character == "\n") {
      line += "\\n";
    } else if (length == 1) {
      line += fmt::format("\\x{:02x}", code_point(character));
    } else {
      line += fmt::format("\\u{:04x}", code_point(character));
    }
  });
  return line;
}

std::string abridged(std::string_view text, std::size_t most) {
  std::size_t characters = 0;
  for_each_character(text, [&](std::string_view, std::size_t) { ++characters; });
  if (characters <= most) return std::string(text);
  const std::size_t tail = most / 2, head = most - tail - 1;
  std::string kept;
  std::size_t at = 0;
  for_each_character(text, [&](std::string_view character, std::size_t) {
    if (at == head) kept += "…";
    if (at < head || at >= characters - tail) kept += character;
    ++at;
  });
  return kept;
}

}  // namespace h5feed
