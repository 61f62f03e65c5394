// SPDX-License-Identifier: Apache-2.0
// Tables as aligned text for people, and as CSV and Markdown for other programs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace h5feed::cli {

/// One column of a table.
struct Column {
  std::string name;
  bool right = false;
  /// Minimum width in aligned text, for tables that are printed row by row.
  std::size_t least_width = 0;
};

/// A table of text cells under named columns.
class Table {
 public:
  explicit Table(std::vector<Column> columns);

  /// Adds a row. Missing cells are empty; surplus cells are dropped.
  void add_row(std::vector<std::string> cells);

  std::size_t rows() const noexcept { return rows_.size(); }

  /// Returns header and rows as aligned text, each ended by a newline, columns two spaces apart.
  std::string to_text() const;
  /// Returns the header alone as `to_text` prints it, with the widths of the rows added so far.
  std::string header_text() const;
  /// Returns one row as `to_text` prints it, with the widths of the rows added so far.
  std::string row_text(std::size_t row) const;

  /// Returns the table as CSV (RFC 4180), with LF as line ends. In right-aligned columns numbers have no
  /// commas between thousands, and "-" is an empty cell.
  std::string to_csv() const;
  /// Returns the table as GitHub-flavoured Markdown.
  std::string to_markdown() const;

 private:
  std::string aligned(const std::vector<std::string>& cells) const;
  std::vector<std::string> names() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;  // Of the columns, with the rows so far
};

/// Returns the number of terminal columns of UTF-8 text, counting code points.
std::size_t display_width(std::string_view text) noexcept;

/// Makes text from a file safe to print on a terminal: control characters, characters that change the
/// direction of writing (Unicode Standard Annex 9), and bytes that are not UTF-8 become "?".
std::string printable(std::string_view text);

/// Returns text of several lines with each made `printable`; line ends and tabs stay.
std::string printable_lines(std::string_view text);

/// Makes JSON text (RFC 8259) safe to print on a terminal: in its strings the characters that `printable`
/// replaces are escaped, as \uXXXX.
std::string printable_json(std::string_view json);

/// Returns text, such as a path from a file, as one word of a command for a shell: as it is, in quotes, or as
/// bash's $'...' if a terminal would not show its characters.
std::string shell_word(std::string_view text);
/// Returns words as a command for a shell.
std::string command_line(const std::vector<std::string>& words);

}  // namespace h5feed::cli
