// SPDX-License-Identifier: Apache-2.0
#include "tools/pack/list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "h5feed/error.hpp"
#include "store/format/byte_source.hpp"
#include "tools/pack/labels.hpp"
#include "tools/program/interrupt.hpp"

namespace h5feed::cli {
namespace {

namespace fs = std::filesystem;

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

bool image_name(const fs::path& file) {
  static constexpr std::array<std::string_view, 10> kEndings = {".jpg", ".jpeg", ".png", ".bmp", ".webp",
                                                                ".tif", ".tiff", ".ppm", ".pgm", ".jp2"};
  const std::string ending = lower(file.extension().string());
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

ImageSet& set_of(ImageSets& sets, const std::string& group) {
  for (ImageSet& set : sets.sets) {
    if (set.group == group) return set;
  }
  return sets.sets.emplace_back(ImageSet{group, {}});
}

[[noreturn]] void refuse_folder(const std::string& folder, const std::string& reason) {
  throw FileError(fmt::format("{}: {}; give a folder with one subfolder per class", folder, reason));
}

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \t";
  const auto first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

// Returns the fields of one record and removes it from `text`. Quotes may enclose commas, quotes and line
// ends.
std::vector<std::string> next_record(std::string_view& text) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (quoted && c == '"' && text.starts_with('"')) {
      fields.back() += c;
      text.remove_prefix(1);
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      fields.emplace_back();
    } else if (!quoted && c == '\n') {
      break;
    } else if (quoted || c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

// One record of a CSV file.
struct ListRow {
  fs::path file;
  std::string label;  // without spaces around it
  std::string group;
  std::size_t list = 0;  // index of its CSV file
  std::size_t line = 0;  // where the record begins, from 1 on
};

// Column numbers; by position unless the first line names the columns.
struct Columns {
  std::size_t path = 0;
  std::size_t label = 1;
  std::size_t group = 2;
};

std::optional<Columns> named_columns(const std::vector<std::string>& fields) {
  static const std::map<std::string, std::size_t Columns::*> kNames = {
      {"path", &Columns::path},   {"file", &Columns::path},   {"filename", &Columns::path},
      {"image", &Columns::path},  {"label", &Columns::label}, {"class", &Columns::label},
      {"group", &Columns::group}, {"split", &Columns::group}};
  Columns columns{fields.size(), fields.size(), fields.size()};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto found = kNames.find(lower(std::string(without_spaces(fields[i]))));
    if (found != kNames.end()) columns.*(found->second) = i;
  }
  if (columns.path == fields.size() || columns.label == fields.size()) return std::nullopt;
  return columns;
}

std::vector<ListRow> read_rows(const std::string& name, const std::string& group, std::size_t list) {
  const auto file = open_file_source(name);
  std::string content(static_cast<std::size_t>(file->size()), '\0');
  file->read(0, std::as_writable_bytes(std::span(content)));
  std::string_view text = content;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // written by spreadsheets
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Columns columns;
  std::vector<ListRow> rows;
  std::size_t next_line = 1;
  while (!text.empty()) {
    const std::size_t line = next_line;
    const char* const begin = text.data();
    const std::vector<std::string> fields = next_record(text);
    next_line += static_cast<std::size_t>(std::count(begin, text.data(), '\n'));
    if (fields.size() == 1 && fields.front().empty()) continue;
    if (line == 1) {
      if (const auto named = named_columns(fields)) {
        columns = *named;
        continue;
      }
    }
    const bool complete = fields.size() > std::max(columns.path, columns.label);
    const std::string_view label = complete ? without_spaces(fields[columns.label]) : "";
    if (label.empty() || fields[columns.path].empty())
      throw FileError(fmt::format("{}: line {} has no path and label; give lines of path,label", name, line));
    rows.push_back({fs::path(name).parent_path() / fields[columns.path], std::string(label),
                    group.empty() && columns.group < fields.size() ? fields[columns.group] : group, list,
                    line});
  }
  if (rows.empty()) throw FileError(fmt::format("{}: lists no image; give lines of path,label", name));
  return rows;
}

void check_folder(const std::string& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return;
  refuse_folder(folder, fs::exists(folder, error) ? "it is not a folder" : "there is no such folder");
}

// Returns whether it is a link to a file or folder that is not there, or that cannot be looked at.
bool leads_nowhere(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_symlink(error) && !entry.exists(error);
}

}  // namespace

std::pair<std::string, std::string> split_name(const std::string& argument) {
  const auto equals = argument.find('=');
  if (equals == std::string::npos) return {"", argument};
  return {argument.substr(0, equals), argument.substr(equals + 1)};
}

void refuse_repeated(const std::string& option, const std::vector<std::string>& arguments) {
  std::set<std::pair<std::string, fs::path>> seen;
  for (const std::string& argument : arguments) {
    const auto [group, source] = split_name(argument);
    std::error_code error;
    fs::path place = fs::canonical(source, error);
    if (error) continue;  // whoever opens it says so
    if (seen.emplace(group, std::move(place)).second) continue;
    throw OptionError(fmt::format("{} names {} twice{}; give it once", option, source,
                                  group.empty() ? "" : fmt::format(" for group {}", group)));
  }
}

void check_image_sources(const std::vector<std::string>& folders, const std::vector<std::string>& files) {
  for (const std::string& argument : folders) check_folder(split_name(argument).second);
  for (const std::string& argument : files) open_file_source(split_name(argument).second);
  refuse_repeated("--images", folders);
  refuse_repeated("--csv", files);
}

ImageSets list_class_folders(const std::vector<std::string>& folders) {
  struct Found {
    std::string group, class_name;
    fs::path file;
  };
  std::vector<Found> found;
  std::set<std::string> classes;
  ImageSets sets;
  for (const std::string& argument : folders) {
    const auto [group, folder] = split_name(argument);
    check_folder(folder);
    const std::size_t before = found.size();
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const std::string class_name = entry.path().filename().string();
      if (leads_nowhere(entry) && !image_name(entry.path())) {
        found.push_back({group, class_name, entry.path()});  // a class that is not fetched yet
        continue;
      }
      std::error_code error;
      if (!entry.is_directory(error)) continue;
      for (const fs::directory_entry& file :
           fs::recursive_directory_iterator(entry.path(), fs::directory_options::follow_directory_symlink)) {
        check_interrupted();
        if (file.is_directory(error)) continue;
        if (!image_name(file.path())) {
          ++sets.ignored;
          continue;
        }
        classes.insert(class_name);
        found.push_back({group, class_name, file.path()});
      }
    }
    if (found.size() == before) refuse_folder(folder, "no image in any folder of it");
    std::sort(found.begin() + static_cast<std::ptrdiff_t>(before), found.end(),
              [](const Found& a, const Found& b) {
                return a.class_name != b.class_name ? a.class_name < b.class_name : a.file < b.file;
              });
  }
  sets.class_names.assign(classes.begin(), classes.end());
  for (Found& one : found) {
    const auto place = std::lower_bound(sets.class_names.begin(), sets.class_names.end(), one.class_name);
    set_of(sets, one.group).items.push_back({std::move(one.file), place - sets.class_names.begin()});
  }
  return sets;
}

ImageSets list_csv(const std::vector<std::string>& files) {
  std::vector<ListRow> rows;
  std::vector<std::string> lists;
  for (const std::string& argument : files) {
    const auto [group, file] = split_name(argument);
    std::vector<ListRow> more = read_rows(file, group, lists.size());
    rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    lists.push_back(file);
  }
  std::vector<LabelText> texts;
  texts.reserve(rows.size());
  for (const ListRow& row : rows) texts.push_back({row.label, lists[row.list], row.line});
  Labels labels = labels_of(texts);
  ImageSets sets{.class_names = std::move(labels.class_names), .label_values = std::move(labels.values)};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    set_of(sets, rows[i].group).items.push_back({std::move(rows[i].file), labels.labels[i]});
  }
  return sets;
}

}  // namespace h5feed::cli
