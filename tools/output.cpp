#include "tools/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <system_error>

#include "h5feed/error.hpp"

namespace h5feed::cli {
namespace {

[[noreturn]] void refuse_path(const std::filesystem::path& path, std::string_view reason) {
  throw FileError(fmt::format("{}: cannot be written ({}); choose another place", path.string(), reason));
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

std::string json_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

void check_export_places(const OutputOptions& options) {
  for (const std::filesystem::path path : {options.csv_file, options.markdown_file, options.json_file}) {
    if (path.empty()) continue;
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    if (::access(folder.c_str(), W_OK | X_OK) != 0) refuse_path(path, std::strerror(errno));
  }
}

void export_results(const OutputOptions& options, const Table& table, const Json& json) {
  if (!options.csv_file.empty()) write_file(options.csv_file, table.to_csv());
  if (!options.markdown_file.empty()) write_file(options.markdown_file, table.to_markdown());
  if (!options.json_file.empty()) write_file(options.json_file, json_text(json));
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::path unfinished = path;
  unfinished += fmt::format(".tmp{}", ::getpid());
  std::error_code error;
  {
    std::ofstream out(unfinished, std::ios::binary | std::ios::trunc);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    out.close();
    if (!out) error.assign(errno != 0 ? errno : EIO, std::generic_category());
  }
  if (!error) std::filesystem::rename(unfinished, path, error);
  if (error) {
    std::error_code ignored;
    std::filesystem::remove(unfinished, ignored);
    refuse_path(path, error.message());
  }
}

void print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) {
    throw FileError(fmt::format("standard output cannot be written ({})", std::strerror(errno)));
  }
}

void say(std::string_view line) { fmt::print(stderr, "{}\n", line); }

}  // namespace h5feed::cli
