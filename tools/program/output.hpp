// SPDX-License-Identifier: Apache-2.0
// Writes results: to stdout as a table or JSON, and to export files. Reads JSON that comes from outside.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "h5feed/log.hpp"
#include "tools/program/table.hpp"

namespace CLI {
class App;
}

namespace h5feed::cli {

/// JSON whose keys keep the order in which they were added.
using Json = nlohmann::ordered_json;

/// Deepest nesting of arrays and objects that JSON from outside may have. nlohmann-json copies, compares and
/// prints values recursively: deeper ones could exhaust the stack.
inline constexpr int kMostJsonLevels = 64;

/// Parses JSON from outside: of a file, a line, an option or another process. Returns a discarded value if
/// the text is no JSON, or is nested deeper than `kMostJsonLevels`. `too_deep`, if given, is set to why then,
/// such as "nested more than 64 levels deep"; other texts leave it empty.
Json json_from(std::string_view text, std::string* too_deep = nullptr);

/// Output options of a command that prints a table.
struct OutputOptions {
  bool json = false;
  std::string csv_file;
  std::string markdown_file;
  std::string json_file;
};

/// Adds --json, --export-csv, --export-markdown and --export-json.
void add_output_options(CLI::App& command, OutputOptions& options);

/// Returns indented JSON with a final newline. Replaces text that is not UTF-8 instead of throwing.
std::string json_text(const Json& json);

/// Throws OptionError if `path` is an HDF5 file: a slip of the keyboard must not replace data by a result.
void refuse_data(const std::filesystem::path& path);

/// Call before long work. Throws OptionError if an export file is `input`, another export file or an HDF5
/// file, FileError if it cannot be written.
void check_export_places(const OutputOptions& options, const std::filesystem::path& input);

/// Writes the requested export files. Each is replaced by a rename: readers see the old or the new content.
/// Throws FileError.
void export_results(const OutputOptions& options, const Table& table, const Json& json);

/// Replaces `path` by `text`, through a temporary file in the same folder. Throws FileError, and OptionError
/// if `path` is an HDF5 file.
void write_file(const std::filesystem::path& path, std::string_view text);

/// Writes lines to stdout and flushes; characters that would control a terminal become "?". Throws FileError
/// if that fails (a full disk, a closed pipe).
void print(std::string_view text);

/// Writes one line to stderr, for messages that are not part of the result; ignores errors. Characters that
/// would control a terminal, line ends among them, become "?".
void say(std::string_view line) noexcept;
/// Writes several lines as `say` does. Names within them must be `printable` already, so that they split
/// none.
void say_lines(std::string_view text) noexcept;

/// Replaces h5feed's log sink while in scope; the destructor restores the default. At most one instance at a
/// time.
class ScopedLogSink {
 public:
  explicit ScopedLogSink(LogSink sink) { set_log_sink(std::move(sink)); }
  ScopedLogSink(const ScopedLogSink&) = delete;
  ScopedLogSink& operator=(const ScopedLogSink&) = delete;
  ~ScopedLogSink() { set_log_sink({}); }
};

/// Log sink that drops everything.
inline void ignore_log(LogLevel, std::string_view) {}

}  // namespace h5feed::cli
