// Where results go: stdout as a table or JSON, and export files.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "h5feed/log.hpp"
#include "tools/table.hpp"

namespace h5feed::cli {

/// Keys stay in the order in which they were added.
using Json = nlohmann::ordered_json;

/// What a user may ask of a command that prints a table.
struct OutputOptions {
  bool json = false;
  std::string csv_file;
  std::string markdown_file;
  std::string json_file;
};

/// Adds --json, --export-csv, --export-markdown and --export-json.
void add_output_options(CLI::App& command, OutputOptions& options);

/// Indented JSON with a final newline; text that is not UTF-8 is replaced, never an exception.
std::string json_text(const Json& json);

/// So that long work does not start in vain: throws OptionError where an export file is `input` or another
/// export file, FileError where it could not be written.
void check_export_places(const OutputOptions& options, const std::filesystem::path& input);

/// Writes the export files that were asked for, each by rename: readers see the old or the new one.
/// Throws FileError.
void export_results(const OutputOptions& options, const Table& table, const Json& json);

/// Replaces `path` by `text`, by way of a file beside it. Throws FileError.
void write_file(const std::filesystem::path& path, std::string_view text);

/// Writes to stdout and flushes. Throws FileError when that fails (a full disk, a closed pipe).
void print(std::string_view text);

/// Writes to stderr, for what is said beside the result; dropped where nobody reads it.
void say(std::string_view line) noexcept;

/// Replaces h5feed's log sink while in scope. One at a time.
class ScopedLogSink {
 public:
  explicit ScopedLogSink(LogSink sink) { set_log_sink(std::move(sink)); }
  ScopedLogSink(const ScopedLogSink&) = delete;
  ScopedLogSink& operator=(const ScopedLogSink&) = delete;
  ~ScopedLogSink() { set_log_sink({}); }
};

/// A sink that drops everything.
inline void ignore_log(LogLevel, std::string_view) {}

}  // namespace h5feed::cli
