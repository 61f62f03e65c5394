// SPDX-License-Identifier: Apache-2.0
#include "tools/program/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/terminal_text.hpp"
#include "store/format/dataset_info.hpp"

namespace h5feed::cli {
namespace {

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string markdown_cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Returns a number such as "94,964" (`format_count`) without the commas, and any other text as it is.
std::string without_commas(const std::string& text) {
  constexpr std::size_t kGroup = 3;
  const std::size_t first = text.find(',');
  if (first == 0 || first > kGroup) return text;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool comma = i >= first && (i - first) % (kGroup + 1) == 0;
    if (comma ? text[i] != ',' : text[i] < '0' || text[i] > '9') return text;
  }
  if ((text.size() - first) % (kGroup + 1) != 0) return text;
  std::string number = text;
  std::erase(number, ',');
  return number;
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) line += (i == 0 ? "" : ",") + csv_cell(cells[i]);
  return line + '\n';
}

std::string markdown_line(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += ' ' + markdown_cell(cell) + " |";
  return line + '\n';
}

// Returns the cells as aligned text shows them: the first one, which names the row, may be a path of any
// length.
std::vector<std::string> shown(std::vector<std::string> cells) {
  if (!cells.empty()) cells.front() = short_path(cells.front());
  return cells;
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (const Column& column : columns_)
    widths_.push_back(std::max(column.least_width, display_width(column.name)));
}

void Table::add_row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  const std::vector<std::string> texts = shown(cells);
  for (std::size_t i = 0; i < texts.size(); ++i) widths_[i] = std::max(widths_[i], display_width(texts[i]));
  rows_.push_back(std::move(cells));
}

std::vector<std::string> Table::names() const {
  std::vector<std::string> names;
  for (const Column& column : columns_) names.push_back(column.name);
  return names;
}

std::string Table::aligned(const std::vector<std::string>& cells) const {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(widths_[i] - display_width(cells[i]), ' ');
    if (i > 0) line += "  ";
    line += columns_[i].right ? padding + cells[i] : cells[i] + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string Table::header_text() const { return aligned(names()); }

std::string Table::row_text(std::size_t row) const { return aligned(shown(rows_.at(row))); }

std::string Table::to_text() const {
  std::string text = header_text();
  for (const auto& row : rows_) text += aligned(shown(row));
  return text;
}

std::string Table::to_csv() const {
  std::string text = csv_line(names());
  for (std::vector<std::string> row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (columns_[i].right) row[i] = row[i] == "-" ? "" : without_commas(row[i]);
    }
    text += csv_line(row);
  }
  return text;
}

std::string Table::to_markdown() const {
  std::string text = markdown_line(names()) + '|';
  for (const Column& column : columns_) text += column.right ? "---:|" : "---|";
  text += '\n';
  for (const auto& row : rows_) text += markdown_line(row);
  return text;
}

std::size_t display_width(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; }));
}

std::string printable(std::string_view text) { return without_controls(text); }

std::string printable_lines(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t end = text.find_first_of("\n\t");
    const std::string_view part = text.substr(0, end);
    result += printable(part);
    if (end == std::string_view::npos) break;
    result += text[end];
    text.remove_prefix(end + 1);
  }
  return result;
}

std::string printable_json(std::string_view json) {
  std::string result;
  while (!json.empty()) {
    const std::string_view character = json.substr(0, std::max<std::size_t>(1, character_bytes(json)));
    // Below U+0020 only the line ends between values are there as they are.
    const bool unsafe = character.size() > 1 || character == "\x7F";
    if (unsafe && controls_display(character)) {
      result += fmt::format("\\u{:04x}", code_point(character));
    } else {
      result += character;
    }
    json.remove_prefix(character.size());
  }
  return result;
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_-.,:+=@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  if (printable(text) == text) {
    std::string quoted;
    for (const char c : text) {
      if (c == '\'') {
        quoted += R"('\'')";  // POSIX: a quote cannot be within quotes
      } else {
        quoted += c;
      }
    }
    return fmt::format("'{}'", quoted);
  }
  std::string word = "$'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') word += '\\';
    if (const auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte >= 0x7F) {
      word += fmt::format("\\x{:02x}", byte);
    } else {
      word += c;
    }
  }
  return word + "'";
}

std::string command_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

}  // namespace h5feed::cli
