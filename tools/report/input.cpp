// SPDX-License-Identifier: Apache-2.0
#include "tools/report/input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/table.hpp"
#include "tools/report/html.hpp"
#include "tools/report/lines.hpp"

namespace h5feed::cli {
namespace {

constexpr std::uint64_t kMostBytes = kGiB;             // of lines, which are read one by one
constexpr std::uint64_t kMostResultBytes = 64 * kMiB;  // of a result of bench, which is read whole
constexpr const char* kWhatInputsAre =
    "give a file of bench --export-json, of monitor -o, or of a loader's epoch_log";

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw FileError(fmt::format("{}: {}; {}", printable(path.string()), why, kWhatInputsAre));
}

bool is_result_of_bench(const Json& json) {
  const auto list = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_array() && !found->empty() &&
           std::ranges::all_of(
               *found, [](const Json& row) { return row.is_object() && row.contains("samples_per_s"); });
  };
  return json.is_object() && (list("rows") || list("sides"));
}

// Reads a result of `bench`, which is one object over many lines or in one. Throws if it is nested too deep.
bool take_result(const std::filesystem::path& path, const std::string& text, Input& input) {
  std::string too_deep;
  Json json = json_from(text, &too_deep);
  if (!too_deep.empty()) refuse(path, "is " + too_deep);
  if (!is_result_of_bench(json)) return false;
  input.kind = Input::Kind::bench;
  input.bench = std::move(json);
  return true;
}

// Returns whether a text starts as an object over several lines does, which no line of a log is.
bool starts_object_of_lines(const std::string& first_line) {
  const auto begin = first_line.find_first_not_of(" \t\r");
  return begin != std::string::npos && first_line.find_last_not_of(" \t\r") == begin &&
         first_line[begin] == '{';
}

std::string whole_text(std::ifstream& in) {
  in.clear();
  in.seekg(0);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string with_folders(const std::filesystem::path& path, int folders) {
  std::filesystem::path label = path.filename();
  std::filesystem::path folder = path.parent_path();
  for (; folders > 0 && folder.has_filename(); --folders, folder = folder.parent_path())
    label = folder.filename() / label;
  return label.string();
}

}  // namespace

const char* name_of(Input::Kind kind) noexcept {
  switch (kind) {
    case Input::Kind::bench:
      return "bench";
    case Input::Kind::monitor:
      return "monitor";
    case Input::Kind::loader:
      return "loader";
  }
  return "";
}

Input read_input(const std::filesystem::path& path) {
  Input input{.path = path.string()};
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) refuse(path, "is not there");
  if (!std::filesystem::is_regular_file(status)) refuse(path, "is not a file");
  const std::uint64_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes == 0) refuse(path, "is empty");
  if (!error && bytes > kMostBytes) refuse(path, fmt::format("has {}, too much", format_bytes(bytes)));
  std::ifstream in(path, std::ios::binary);
  std::string line;
  if (!std::getline(in, line)) refuse(path, "cannot be read");
  if (line.starts_with("\x89HDF")) refuse(path, "is an HDF5 file");
  // A result of bench is small; it may lie in one line.
  if (bytes <= kMostResultBytes && (starts_object_of_lines(line) || in.eof() || in.peek() == EOF)) {
    if (take_result(path, whole_text(in), input)) return input;
    if (starts_object_of_lines(line)) refuse(path, "is no whole result of bench");
    in.clear();
    in.seekg(0);
    std::getline(in, line);
  }
  LineReader lines;
  do {
    check_interrupted();
    lines.take(line, !in.eof());
  } while (std::getline(in, line));
  if (!lines.finish(input)) refuse(path, "has no line of monitor or of a loader, and is no result of bench");
  return input;
}

void label_inputs(std::vector<Input>& inputs) {
  constexpr int kMostFolders = 20;
  constexpr std::size_t kLongest = 40;
  for (int folders = 0; folders <= kMostFolders; ++folders) {
    std::set<std::string> different;
    for (Input& input : inputs) {
      input.label =
          shortened(with_folders(std::filesystem::path(input.path).lexically_normal(), folders), kLongest);
      different.insert(input.label);
    }
    if (different.size() == inputs.size()) return;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    inputs[i].label = fmt::format("{}: {}", i + 1, inputs[i].label);
}

std::optional<double> number_in(const Json& json, std::string_view key) {
  if (!json.is_object()) return std::nullopt;
  const auto found = json.find(std::string(key));
  if (found == json.end() || !found->is_number()) return std::nullopt;
  const auto value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string text_in(const Json& json, std::string_view key) {
  if (!json.is_object()) return {};
  const auto found = json.find(std::string(key));
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace h5feed::cli
