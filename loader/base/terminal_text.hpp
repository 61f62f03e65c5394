// SPDX-License-Identifier: Apache-2.0
// Text of files and users that may reach a terminal: which of its characters would do more than be shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace h5feed {

/// Returns the bytes of the UTF-8 character that `text` starts with; 0 if it starts with none. `text` must
/// not be empty.
std::size_t character_bytes(std::string_view text) noexcept;

/// Returns whether a UTF-8 character does more than be shown: control characters (U+0000 to U+001F, U+007F to
/// U+009F), which a terminal obeys, and those that change the direction of writing (Unicode Standard
/// Annex 9).
bool controls_display(std::string_view character) noexcept;

/// Returns the number of a UTF-8 character of at most three bytes.
unsigned code_point(std::string_view character);

/// Returns whether `without_controls` would return the text as it is. Does not allocate.
bool is_printable(std::string_view text) noexcept;

/// Returns the text with "?" for each character that `controls_display`, and for each byte that is not UTF-8.
std::string without_controls(std::string_view text);

/// Returns the text with escapes for each character that `controls_display`: \n, \xNN below U+0080, else
/// \uNNNN. Bytes that are not UTF-8 stay, because names of files may have them.
std::string on_one_line(std::string_view text);

/// Characters that a message shows of a value that may be of any length.
inline constexpr std::size_t kMostShown = 100;

/// Returns the text with at most `most` characters, "…" among them in place of its middle if it has more. A
/// byte that is not UTF-8 counts as a character.
std::string abridged(std::string_view text, std::size_t most = kMostShown);

}  // namespace h5feed
