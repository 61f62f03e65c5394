// SPDX-License-Identifier: Apache-2.0
// Texts of /proc and /sys, read and split into words at little cost: `monitor` reads them several times a
// second.
#pragma once

#include <charconv>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace h5feed::cli {

/// Returns the text of a file, at most its first `most` bytes; empty if it cannot be read.
std::string read_proc_text(const std::filesystem::path& path, std::size_t most = std::size_t{1} << 20);

/// Cuts the first line off `text` and returns it, without its end; empty if there is none.
std::string_view next_line(std::string_view& text) noexcept;

/// Splits text at blanks and ends of lines. Borrows the text.
class Words {
 public:
  explicit Words(std::string_view text) noexcept : rest_(text) {}

  /// Returns the next word; empty if there is none.
  std::string_view next() noexcept;
  /// Passes over `count` words.
  void skip(int count) noexcept;
  /// Takes the next word as a number; unset if it is none.
  template <typename Number>
  std::optional<Number> number() noexcept {
    const std::string_view word = next();
    Number value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc() && end == word.data() + word.size() ? std::optional(value) : std::nullopt;
  }

 private:
  std::string_view rest_;
};

}  // namespace h5feed::cli
