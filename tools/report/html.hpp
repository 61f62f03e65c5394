// SPDX-License-Identifier: Apache-2.0
// Text and numbers as parts of an HTML page.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace h5feed::cli {

/// Returns text from a file as HTML that shows it, for elements and for attributes in double quotes: markup
/// is escaped; control characters, characters that change the direction of writing, and bytes that are not
/// UTF-8 become "?".
std::string escaped(std::string_view text);

/// Returns at most `most` characters of UTF-8 text, with "…" in the middle if some were left out.
std::string shortened(std::string_view text, std::size_t most);

/// Returns the shortest decimal number that reads back as `value`.
std::string exact_number(double value);

/// Returns a number for people: three digits at least, thousands separated by commas.
std::string shown_number(double value);

}  // namespace h5feed::cli
