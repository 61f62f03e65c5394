// SPDX-License-Identifier: Apache-2.0
#include "tools/info/episodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

#include "base/byte_units.hpp"
#include "base/with_type.hpp"
#include "dataset/geometry.hpp"
#include "h5feed/error.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "tools/info/volumes.hpp"

namespace h5feed::cli {
namespace {

// What the lines say.
struct EpisodeReading {
  std::uint64_t episodes = 0;
  std::string data;
  std::string target;
  std::string layout;  // of C++
  std::string index;
  std::string table;
  std::string only;
};

std::string name_in(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_action(const DatasetEntry& entry) {
  const std::string name = name_in(entry.path);
  return entry.numeric && (name == "actions" || name == "action") && !entry.shape.empty() &&
         entry.shape.size() <= 2;
}

// Returns the pattern for a group whose name ends with a number: "/data/demo_*" for "/data/demo_12"; empty
// for any other.
std::string numbered_pattern(const std::string& group) {
  std::size_t end = group.size();
  while (end > 0 && std::isdigit(static_cast<unsigned char>(group[end - 1])) != 0) --end;
  return end == group.size() || end == 0 ? std::string() : group.substr(0, end) + "*";
}

bool looks_like_frames(const DatasetEntry& entry) {
  const auto dtype = entry.numeric ? dtype_from_name(entry.type_text) : std::nullopt;
  return dtype && entry.shape.size() == 4 && looks_like_images(entry.shape, *dtype);
}

// Returns the dataset to read as the data: images if there are any, else the widest rows.
const DatasetEntry* best_data(const std::vector<const DatasetEntry*>& choices) {
  const DatasetEntry* best = nullptr;
  const auto rank = [](const DatasetEntry& entry) {
    std::uint64_t values = 1;
    for (std::size_t d = 1; d < entry.shape.size(); ++d) values *= entry.shape[d];
    return std::pair(looks_like_frames(entry), values);
  };
  for (const DatasetEntry* const entry : choices) {
    if (best == nullptr || rank(*entry) > rank(*best)) best = entry;
  }
  return best;
}

std::string layout_of(const DatasetEntry& data) {
  if (!looks_like_frames(data)) return "none";
  const bool first = data.shape[1] <= 4;
  return first ? "nchw" : "nhwc";
}

std::optional<EpisodeReading> of_groups(const std::vector<DatasetEntry>& entries) {
  const auto actions = std::ranges::find_if(entries, [](const DatasetEntry& entry) {
    return is_action(entry) && !numbered_pattern(entry.path.substr(0, entry.path.rfind('/'))).empty();
  });
  if (actions == entries.end()) return std::nullopt;
  const std::string group = actions->path.substr(0, actions->path.rfind('/'));
  const std::string pattern = numbered_pattern(group);
  std::vector<const DatasetEntry*> choices;
  std::uint64_t episodes = 0;
  for (const DatasetEntry& entry : entries) {
    const bool inside = entry.path.starts_with(group + "/");
    if (inside && entry.numeric && entry.shape.size() >= 2 && entry.shape.front() == actions->shape.front() &&
        !is_action(entry))
      choices.push_back(&entry);
    const std::string own = entry.path.substr(0, entry.path.rfind('/'));
    if (is_action(entry) && numbered_pattern(own) == pattern) ++episodes;
  }
  const DatasetEntry* const data = best_data(choices);
  if (data == nullptr) return std::nullopt;
  EpisodeReading reading{.episodes = episodes,
                         .data = pattern + data->path.substr(group.size()),
                         .target = pattern + "/" + name_in(actions->path),
                         .layout = layout_of(*data)};
  if (std::ranges::find(entries, "/mask/train", &DatasetEntry::path) != entries.end())
    reading.only = "mask/train";
  return reading;
}

std::vector<std::int64_t> values_of(const std::shared_ptr<H5File>& file, const std::string& path) {
  const auto reader = open_chunk_reader(file, file->describe(path));
  const ByteBuffer stored = read_all(*reader, 1);
  std::vector<std::int64_t> values(static_cast<std::size_t>(reader->info().rows()));
  with_type_of(reader->info().dtype, [&](auto typed) {
    using T = decltype(typed);
    if constexpr (std::is_integral_v<T>) {
      const T* const from = reinterpret_cast<const T*>(stored.data());
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(from[i]);
    }
  });
  return values;
}

// Returns how a table tells the episodes of `rows` rows, and counts them; empty if it does not.
std::string index_of(const std::vector<std::int64_t>& values, std::uint64_t rows, std::uint64_t& episodes) {
  if (values.empty()) return {};
  if (values.size() == rows) {
    std::set<std::int64_t> seen;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if ((i == 0 || values[i] != values[i - 1]) && !seen.insert(values[i]).second) return {};
    }
    episodes = seen.size();
    return episodes > 1 ? "ids" : "";
  }
  episodes = values.size();
  const auto wanted = static_cast<std::int64_t>(rows);
  if (values.back() == wanted && std::ranges::is_sorted(values) && values.front() > 0) return "ends";
  std::int64_t sum = 0;
  for (const std::int64_t value : values) {
    if (value < 0 || value > wanted - sum) return {};
    sum += value;
  }
  return sum == wanted ? "lengths" : "";
}

std::optional<EpisodeReading> of_tables(const std::shared_ptr<H5File>& file,
                                        const std::vector<DatasetEntry>& entries) {
  constexpr std::uint64_t kMostRows = 100'000'000;
  for (const DatasetEntry& table : entries) {
    const auto dtype = table.numeric ? dtype_from_name(table.type_text) : std::nullopt;
    if (!dtype || !is_integer(*dtype) || table.shape.size() != 1 || table.shape.front() > kMostRows ||
        name_in(table.path).find("episode") == std::string::npos)
      continue;
    const std::vector<std::int64_t> values = values_of(file, table.path);
    EpisodeReading reading{.table = table.path};
    std::vector<const DatasetEntry*> choices;
    for (const DatasetEntry& entry : entries) {
      if (!entry.numeric || entry.shape.empty() || entry.path == table.path) continue;
      std::uint64_t episodes = 0;
      const std::string index = index_of(values, entry.shape.front(), episodes);
      if (index.empty()) continue;
      if (is_action(entry)) {
        reading.target = entry.path;
      } else if (entry.shape.size() >= 2) {
        reading.index = index;
        reading.episodes = episodes;
        choices.push_back(&entry);
      }
    }
    const DatasetEntry* const data = best_data(choices);
    if (data == nullptr) continue;
    reading.data = data->path;
    reading.layout = layout_of(*data);
    return reading;
  }
  return std::nullopt;
}

}  // namespace

std::string lines_of_episodes(const std::shared_ptr<H5File>& file, const std::vector<DatasetEntry>& entries,
                              const std::string& shown) {
  std::optional<EpisodeReading> found = of_groups(entries);
  if (!found) found = of_tables(file, entries);
  if (!found) return {};
  const EpisodeReading& reading = *found;
  std::string cpp = fmt::format("h5feed::Dataset::open({{.files = {{{}}}, .data = {}", literal(shown),
                                literal(reading.data));
  std::string python = fmt::format("h5feed.Dataset.open({}, data={}", literal(shown), literal(reading.data));
  if (!reading.target.empty()) {
    cpp += fmt::format(", .target = {}", literal(reading.target));
    python += fmt::format(", target={}", literal(reading.target));
  }
  cpp += fmt::format(", .input_layout = h5feed::InputLayout::{}, .episodes = h5feed::EpisodeOptions{{",
                     reading.layout);
  python += fmt::format(", input_layout=\"{}\", window=[-1, 0]", reading.layout);
  if (!reading.target.empty()) python += ", target_window=[0, 1, 2, 3]";
  python += ", episodes={";
  if (!reading.index.empty()) {
    cpp += fmt::format(".index = h5feed::EpisodeOptions::Index::{}, .table = {}, ", reading.index,
                       literal(reading.table));
    python += fmt::format("\"index\": \"{}\", \"table\": {}, ", reading.index, literal(reading.table));
  }
  if (!reading.only.empty()) {
    cpp += fmt::format(".only = {}, ", literal(reading.only));
    python += fmt::format("\"only\": {}, ", literal(reading.only));
  }
  cpp += ".missing_before = 1, .missing_after = 3}, .window = {-1, 0}";
  if (!reading.target.empty()) cpp += ", .target_window = {0, 1, 2, 3}";
  python += "\"missing_before\": 1, \"missing_after\": 3})";
  return fmt::format("windows in {} episodes:\n  C++:    {}}})\n  Python: {}\n",
                     format_count(reading.episodes), cpp, python);
}

}  // namespace h5feed::cli
