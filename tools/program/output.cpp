// SPDX-License-Identifier: Apache-2.0
#include "tools/program/output.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/terminal_text.hpp"
#include "h5feed/error.hpp"
#include "store/format/byte_source.hpp"
#include "store/format/superblock.hpp"
#include "store/write/staged_file.hpp"
#include "tools/program/interrupt.hpp"

namespace h5feed::cli {
namespace {

// Nobody may be reading; there is no other place to report that.
void write_to_stderr(std::string_view line) noexcept {
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fputc('\n', stderr);
}

// Returns whether JSON is nested deeper than `kMostJsonLevels`. The callback of nlohmann-json's parser would
// tell it, too, but with one the parser takes a time quadratic in the length of an array of objects.
bool is_deep(std::string_view json) noexcept {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // the parser skips it
  if (json.starts_with(kByteOrderMark)) json.remove_prefix(kByteOrderMark.size());
  int levels = 0;
  bool in_string = false;
  for (std::size_t i = std::min(json.find_first_not_of(" \t\r\n"), json.size()); i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++levels > kMostJsonLevels) return true;
    } else if (c == ']' || c == '}') {
      --levels;
    }
    if (levels == 0 && !in_string) return false;  // the value has ended, or is no array and no object
  }
  return false;
}

}  // namespace

void add_output_options(CLI::App& command, OutputOptions& options) {
  command.add_flag("--json", options.json, "Print JSON instead of the table");
  command.add_option("--export-csv", options.csv_file, "Also write the table to FILE as CSV")
      ->type_name("FILE");
  command.add_option("--export-markdown", options.markdown_file, "Also write the table to FILE as Markdown")
      ->type_name("FILE");
  command.add_option("--export-json", options.json_file, "Also write the JSON to FILE")->type_name("FILE");
}

Json json_from(std::string_view text, std::string* too_deep) {
  const bool deep = is_deep(text);
  if (too_deep != nullptr)
    *too_deep = deep ? fmt::format("nested more than {} levels deep", kMostJsonLevels) : std::string();
  return deep ? Json(Json::value_t::discarded) : Json::parse(text, nullptr, false);
}

std::string json_text(const Json& json) {
  return printable_json(json.dump(2, ' ', false, Json::error_handler_t::replace)) + '\n';
}

void refuse_data(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) || std::filesystem::file_size(path, error) == 0 || error)
    return;
  const bool data = [&] {
    try {
      return has_hdf5_signature(*open_file_source(path));
    } catch (const Error&) {
      return false;  // it cannot be read, and perhaps be written
    }
  }();
  if (data) {
    throw OptionError(fmt::format("{} is an HDF5 file and is not replaced; choose another file, or remove it",
                                  printable(path.string())));
  }
}

void check_export_places(const OutputOptions& options, const std::filesystem::path& input) {
  std::vector<std::filesystem::path> taken;
  for (const std::filesystem::path path : {options.csv_file, options.markdown_file, options.json_file}) {
    if (path.empty()) continue;
    std::error_code error;
    if (std::filesystem::equivalent(path, input, error)) {
      throw OptionError(
          fmt::format("{} is both input and output; choose another export file", path.string()));
    }
    std::filesystem::path place = std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
    if (error) place = path;
    if (std::find(taken.begin(), taken.end(), place) != taken.end()) {
      throw OptionError(fmt::format("two exports name {}; give each its own file", path.string()));
    }
    taken.push_back(std::move(place));
    refuse_data(path);
    StagedFile(path, true).probe(1);
  }
}

void export_results(const OutputOptions& options, const Table& table, const Json& json) {
  if (!options.csv_file.empty()) write_file(options.csv_file, table.to_csv());
  if (!options.markdown_file.empty()) write_file(options.markdown_file, table.to_markdown());
  if (!options.json_file.empty()) write_file(options.json_file, json_text(json));
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  const UnfinishedOutput unfinished;
  refuse_data(path);
  StagedFile staged(path, true);
  std::ofstream out(staged.temporary(), std::ios::binary | std::ios::trunc);
  if (out) staged.hold();
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  if (!out) {
    throw FileError(
        fmt::format("{}: cannot be written ({}); choose another place", path.string(), std::strerror(errno)));
  }
  staged.commit();
}

void print(std::string_view text) {
  const std::string shown = printable_lines(text);
  const bool written = std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size();
  if (!written || std::fflush(stdout) != 0) {
    throw FileError(fmt::format("standard output cannot be written ({})", std::strerror(errno)));
  }
}

void say(std::string_view line) noexcept {
  if (is_printable(line)) return write_to_stderr(line);
  try {
    write_to_stderr(printable(line));
  } catch (const std::bad_alloc&) {
    write_to_stderr("not enough memory for a message");
  }
}

void say_lines(std::string_view text) noexcept {
  while (true) {
    const std::size_t end = text.find('\n');
    say(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace h5feed::cli
