// SPDX-License-Identifier: Apache-2.0
#include "tools/info/episodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "base/with_type.hpp"
#include "dataset/geometry.hpp"
#include "h5feed/error.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"

namespace h5feed::cli {
namespace {

// Windows that training of each kind takes: what was, and what follows.
const std::vector<std::int64_t> kPast = {-1, 0};
const std::vector<std::int64_t> kFuture = {0, 1, 2, 3};

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

InputLayout layout_of(const DatasetEntry& data) {
  if (!looks_like_frames(data)) return InputLayout::none;
  const bool first = data.shape[1] <= 4;
  return first ? InputLayout::nchw : InputLayout::nhwc;
}

// Returns the reading of episodes whose data and target have windows that may miss rows at both ends.
OpenReading windows_in(std::uint64_t episodes, DatasetOptions options, EpisodeOptions rows = {}) {
  options.window = kPast;
  if (!options.target.empty()) options.target_window = kFuture;
  rows.missing_before = 1;
  rows.missing_after = 3;
  options.episodes = std::move(rows);
  return {fmt::format("windows in {} {}", format_count(episodes), episodes == 1 ? "episode" : "episodes"),
          std::move(options)};
}

bool has(const std::vector<DatasetEntry>& entries, const std::string& path) {
  return std::ranges::find(entries, path, &DatasetEntry::path) != entries.end();
}

// Groups with actions. Observations that have a row more than the actions are a field.
std::optional<OpenReading> of_groups(const std::vector<DatasetEntry>& entries) {
  const auto actions = std::ranges::find_if(entries, [](const DatasetEntry& entry) {
    return is_action(entry) && !numbered_pattern(entry.path.substr(0, entry.path.rfind('/'))).empty();
  });
  if (actions == entries.end()) return std::nullopt;
  const std::string group = actions->path.substr(0, actions->path.rfind('/'));
  const std::string pattern = numbered_pattern(group);
  std::vector<const DatasetEntry*> choices;
  std::vector<const DatasetEntry*> longer;
  std::uint64_t episodes = 0;
  for (const DatasetEntry& entry : entries) {
    const std::string own = entry.path.substr(0, entry.path.rfind('/'));
    if (is_action(entry) && numbered_pattern(own) == pattern) ++episodes;
    const bool rows = entry.path.starts_with(group + "/") && entry.numeric && entry.shape.size() >= 2;
    // An observation that follows the action cannot be an input of the policy.
    if (!rows || is_action(entry) || entry.path.find("/next_", group.size()) != std::string::npos) continue;
    if (entry.shape.front() == actions->shape.front()) choices.push_back(&entry);
    if (entry.shape.front() == actions->shape.front() + 1 &&
        entry.path.find("obs", group.size()) != std::string::npos)
      longer.push_back(&entry);
  }
  const std::string target = pattern + "/" + name_in(actions->path);
  EpisodeOptions rows;
  if (has(entries, "/mask/train")) rows.only = "mask/train";
  if (const DatasetEntry* const observations = best_data(longer)) {
    DatasetOptions options{.data = target, .input_layout = InputLayout::none};
    options.fields.push_back({.name = name_in(observations->path),
                              .data = pattern + observations->path.substr(group.size()),
                              .input_layout = layout_of(*observations),
                              .window = kPast});
    OpenReading reading = windows_in(episodes, std::move(options), std::move(rows));
    reading.options.window = kFuture;
    return reading;
  }
  const DatasetEntry* const data = best_data(choices);
  if (data == nullptr) return std::nullopt;
  return windows_in(
      episodes,
      {.data = pattern + data->path.substr(group.size()), .target = target, .input_layout = layout_of(*data)},
      std::move(rows));
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
std::optional<EpisodeOptions::Index> index_of(const std::vector<std::int64_t>& values, std::uint64_t rows,
                                              std::uint64_t& episodes) {
  if (values.empty()) return std::nullopt;
  if (values.size() == rows) {
    std::set<std::int64_t> seen;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if ((i == 0 || values[i] != values[i - 1]) && !seen.insert(values[i]).second) return std::nullopt;
    }
    episodes = seen.size();
    return episodes > 1 ? std::optional(EpisodeOptions::Index::ids) : std::nullopt;
  }
  episodes = values.size();
  const auto wanted = static_cast<std::int64_t>(rows);
  if (values.back() == wanted && std::ranges::is_sorted(values) && values.front() > 0)
    return EpisodeOptions::Index::ends;
  std::int64_t sum = 0;
  for (const std::int64_t value : values) {
    if (value < 0 || value > wanted - sum) return std::nullopt;
    sum += value;
  }
  return sum == wanted ? std::optional(EpisodeOptions::Index::lengths) : std::nullopt;
}

// Tables of frames with a table of their episodes.
std::optional<OpenReading> of_tables(const std::shared_ptr<H5File>& file,
                                     const std::vector<DatasetEntry>& entries) {
  constexpr std::uint64_t kMostRows = 100'000'000;
  for (const DatasetEntry& table : entries) {
    const auto dtype = table.numeric ? dtype_from_name(table.type_text) : std::nullopt;
    if (!dtype || !is_integer(*dtype) || table.shape.size() != 1 || table.shape.front() > kMostRows ||
        name_in(table.path).find("episode") == std::string::npos)
      continue;
    const std::vector<std::int64_t> values = values_of(file, table.path);
    EpisodeOptions rows{.table = table.path};
    std::string target;
    std::uint64_t episodes = 0;
    std::vector<const DatasetEntry*> choices;
    for (const DatasetEntry& entry : entries) {
      if (!entry.numeric || entry.shape.empty() || entry.path == table.path) continue;
      std::uint64_t own = 0;
      const auto index = index_of(values, entry.shape.front(), own);
      if (!index) continue;
      if (is_action(entry)) {
        target = entry.path;
      } else if (entry.shape.size() >= 2) {
        rows.index = *index;
        episodes = own;
        choices.push_back(&entry);
      }
    }
    const DatasetEntry* const data = best_data(choices);
    if (data == nullptr) continue;
    return windows_in(episodes, {.data = data->path, .target = target, .input_layout = layout_of(*data)},
                      std::move(rows));
  }
  return std::nullopt;
}

// A file that is one recording of ACT: one start is drawn in each, and the actions from there on are padded.
std::optional<OpenReading> of_recording(const std::vector<DatasetEntry>& entries) {
  const auto actions = std::ranges::find_if(entries, [](const DatasetEntry& entry) {
    return is_action(entry) && entry.path.rfind('/') == 0 && entry.shape.size() == 2;
  });
  if (actions == entries.end()) return std::nullopt;
  std::vector<const DatasetEntry*> choices;
  for (const DatasetEntry& entry : entries) {
    if (entry.numeric && entry.shape.size() >= 2 && entry.shape.front() == actions->shape.front() &&
        !is_action(entry))
      choices.push_back(&entry);
  }
  const DatasetEntry* const data = best_data(choices);
  if (data == nullptr) return std::nullopt;
  OpenReading reading =
      windows_in(1, {.data = data->path, .target = actions->path, .input_layout = layout_of(*data)});
  reading.options.window.clear();
  reading.options.episodes = EpisodeOptions{.anchors = EpisodeOptions::Anchors::one_random,
                                            .missing_after = -1,
                                            .fill = EpisodeOptions::Fill::zero};
  reading.what += "; give all files that are recordings";
  return reading;
}

// A file that is one scan of fastMRI: a slice with its neighbours, and what belongs to the whole scan.
std::optional<OpenReading> of_scan(const std::vector<DatasetEntry>& entries) {
  const auto kspace = std::ranges::find(entries, "/kspace", &DatasetEntry::path);
  if (kspace == entries.end() || !kspace->numeric || kspace->shape.size() < 3) return std::nullopt;
  DatasetOptions options{.data = kspace->path, .input_layout = InputLayout::none};
  for (const char* const image : {"/reconstruction_esc", "/reconstruction_rss"}) {
    const auto found = std::ranges::find(entries, image, &DatasetEntry::path);
    if (found != entries.end() && !found->shape.empty() && found->shape.front() == kspace->shape.front())
      options.target = image;
  }
  if (has(entries, "/mask")) options.fields.push_back({.name = "mask", .per = FieldUnit::file});
  OpenReading reading = windows_in(1, std::move(options));
  reading.options.window = {-1, 0, 1};
  reading.options.target_window.clear();
  reading.options.episodes->missing_after = 1;
  reading.what += "; give all files that are scans";
  return reading;
}

// A file of fields over time, (T,C,H,W): the states of the weather, and the next one as the target.
std::optional<OpenReading> of_fields(const std::vector<DatasetEntry>& entries) {
  constexpr std::uint64_t kLeastExtent = 8;
  const DatasetEntry* found = nullptr;
  for (const DatasetEntry& entry : entries) {
    const auto dtype = entry.numeric ? dtype_from_name(entry.type_text) : std::nullopt;
    if (!dtype || entry.shape.empty()) continue;
    if (entry.shape.size() == 4 && !is_integer(*dtype) && entry.shape[2] >= kLeastExtent &&
        entry.shape[3] >= kLeastExtent && entry.shape[1] < entry.shape[2]) {
      if (found != nullptr) return std::nullopt;
      found = &entry;
    } else if (is_integer(*dtype) && entry.shape.size() == 1) {
      return std::nullopt;  // labels of images
    }
  }
  if (found == nullptr || found->shape[0] < 3) return std::nullopt;
  DatasetOptions options{.data = found->path,
                         .target = found->path,
                         .input_layout = InputLayout::nchw,
                         .window = kPast,
                         .target_window = {1}};
  return OpenReading{"windows in time, if the first dimension is the time", std::move(options), false};
}

}  // namespace

std::optional<OpenReading> episode_reading(const std::shared_ptr<H5File>& file,
                                           const std::vector<DatasetEntry>& entries) {
  if (auto found = of_groups(entries)) return found;
  if (auto found = of_tables(file, entries)) return found;
  if (auto found = of_recording(entries)) return found;
  if (auto found = of_scan(entries)) return found;
  return of_fields(entries);
}

}  // namespace h5feed::cli
