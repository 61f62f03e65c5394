// Tables for people (aligned text) and for other programs (CSV, Markdown).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace h5feed::cli {

/// One column. Numbers are aligned to the right.
struct Column {
  std::string name;
  bool right = false;
  /// Room to leave in aligned text, for tables that are printed row by row.
  std::size_t least_width = 0;
};

/// Cells of text under named columns.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// As many cells as columns; fewer leave the rest empty.
  void add_row(std::vector<std::string> cells);

  std::size_t rows() const noexcept { return rows_.size(); }

  /// Header and rows, each ended by a newline, columns two spaces apart.
  std::string to_text() const;
  /// The header alone, or one row, as `to_text` prints it with the widths known now.
  std::string header_text() const;
  std::string row_text(std::size_t row) const;

  /// RFC 4180, with "\n".
  std::string to_csv() const;
  /// A GitHub-flavoured table.
  std::string to_markdown() const;

 private:
  std::string aligned(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;
  std::vector<std::size_t> widths() const;
  std::vector<std::string> names() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Columns that UTF-8 text takes on a terminal, counting code points.
std::size_t display_width(std::string_view text) noexcept;

/// Text from a file, for a terminal: control characters and bytes that are not UTF-8 become "?".
std::string printable(std::string_view text);

}  // namespace h5feed::cli
