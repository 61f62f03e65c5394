// SPDX-License-Identifier: Apache-2.0
#include "tools/info/episodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "base/byte_units.hpp"
#include "base/with_type.hpp"
#include "dataset/geometry.hpp"
#include "h5feed/error.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"

namespace h5feed::cli {
namespace {

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

// Returns the samples of robots: the last two states, and the next four actions if there are any.
FoundSamples of_episodes(std::uint64_t episodes, const DatasetEntry& data, const std::string& target) {
  FoundSamples found{
      fmt::format("windows in {} episodes", format_count(episodes)),
      {.data = data.path,
       .target = target,
       .input_layout = layout_of(data),
       .episodes = EpisodeOptions{.missing_before = 1, .missing_after = target.empty() ? 0 : 3}}};
  found.options.window = {-1, 0};
  if (!target.empty()) found.options.target_window = {0, 1, 2, 3};
  return found;
}

std::optional<FoundSamples> of_groups(const std::vector<DatasetEntry>& entries) {
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
  FoundSamples found = of_episodes(episodes, *data, pattern + "/" + name_in(actions->path));
  found.options.data = pattern + data->path.substr(group.size());
  if (std::ranges::find(entries, "/mask/train", &DatasetEntry::path) != entries.end())
    found.options.episodes->only = "mask/train";
  return found;
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
  using Index = EpisodeOptions::Index;
  if (values.empty()) return {};
  if (values.size() == rows) {
    std::set<std::int64_t> seen;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if ((i == 0 || values[i] != values[i - 1]) && !seen.insert(values[i]).second) return {};
    }
    episodes = seen.size();
    return episodes > 1 ? std::optional(Index::ids) : std::nullopt;
  }
  episodes = values.size();
  const auto wanted = static_cast<std::int64_t>(rows);
  if (values.back() == wanted && std::ranges::is_sorted(values) && values.front() > 0) return Index::ends;
  std::int64_t sum = 0;
  for (const std::int64_t value : values) {
    if (value < 0 || value > wanted - sum) return {};
    sum += value;
  }
  return sum == wanted ? std::optional(Index::lengths) : std::nullopt;
}

std::optional<FoundSamples> of_tables(const std::shared_ptr<H5File>& file,
                                      const std::vector<DatasetEntry>& entries) {
  constexpr std::uint64_t kMostRows = 100'000'000;
  for (const DatasetEntry& table : entries) {
    const auto dtype = table.numeric ? dtype_from_name(table.type_text) : std::nullopt;
    if (!dtype || !is_integer(*dtype) || table.shape.size() != 1 || table.shape.front() > kMostRows ||
        name_in(table.path).find("episode") == std::string::npos)
      continue;
    const std::vector<std::int64_t> values = values_of(file, table.path);
    std::string target;
    EpisodeOptions::Index used = EpisodeOptions::Index::ids;
    std::uint64_t all = 0;
    std::vector<const DatasetEntry*> choices;
    for (const DatasetEntry& entry : entries) {
      if (!entry.numeric || entry.shape.empty() || entry.path == table.path) continue;
      std::uint64_t episodes = 0;
      const auto index = index_of(values, entry.shape.front(), episodes);
      if (!index) continue;
      if (is_action(entry)) {
        target = entry.path;
      } else if (entry.shape.size() >= 2) {
        used = *index;
        all = episodes;
        choices.push_back(&entry);
      }
    }
    const DatasetEntry* const data = best_data(choices);
    if (data == nullptr) continue;
    FoundSamples found = of_episodes(all, *data, target);
    found.options.episodes->index = used;
    found.options.episodes->table = table.path;
    return found;
  }
  return std::nullopt;
}

// Returns states on a grid of latitudes and longitudes, (T,C,H,W), as weather models read them: the last two
// states and the next three.
std::optional<FoundSamples> of_weather(const std::vector<DatasetEntry>& entries) {
  for (const DatasetEntry& entry : entries) {
    if (!looks_like_weather(entry)) continue;
    FoundSamples found{fmt::format("windows in a series of {} states", format_count(entry.shape.front())),
                       {.data = entry.path,
                        .target = entry.path,
                        .input_layout = InputLayout::nchw,
                        .episodes = EpisodeOptions{.index = EpisodeOptions::Index::series}}};
    found.options.window = {-1, 0};
    found.options.target_window = {1, 2, 3};
    return found;
  }
  return std::nullopt;
}

// Returns the slices of a scan of fastMRI, each with its neighbours.
std::optional<FoundSamples> of_scans(const std::vector<DatasetEntry>& entries) {
  const auto kspace = std::ranges::find(entries, "/kspace", &DatasetEntry::path);
  if (kspace == entries.end() || !kspace->numeric || kspace->shape.size() < 3) return std::nullopt;
  for (const DatasetEntry& entry : entries) {
    if (!entry.path.starts_with("/reconstruction_") || !entry.numeric || entry.shape.empty() ||
        entry.shape.front() != kspace->shape.front())
      continue;
    FoundSamples found{"slices of a scan with their neighbours",
                       {.data = kspace->path,
                        .target = entry.path,
                        .input_layout = InputLayout::none,
                        .episodes = EpisodeOptions{.missing_before = 1, .missing_after = 1}}};
    found.options.window = {-1, 0, 1};
    return found;
  }
  return std::nullopt;
}

}  // namespace

bool looks_like_weather(const DatasetEntry& entry) {
  constexpr std::uint64_t kLeastExtent = 8;
  const auto dtype = entry.numeric ? dtype_from_name(entry.type_text) : std::nullopt;
  if (!dtype || is_integer(*dtype) || entry.shape.size() != 4) return false;
  const std::uint64_t height = entry.shape[2];
  const std::uint64_t width = entry.shape[3];
  return entry.shape[0] >= kLeastExtent && height >= kLeastExtent &&
         (width == 2 * height || width == 2 * (height - 1));
}

std::vector<FoundSamples> window_samples(const std::shared_ptr<H5File>& file,
                                         const std::vector<DatasetEntry>& entries) {
  std::optional<FoundSamples> found = of_groups(entries);
  if (!found) found = of_tables(file, entries);
  if (!found) found = of_scans(entries);
  if (!found) found = of_weather(entries);
  if (!found) return {};
  found->options.files = {file->path()};
  return {std::move(*found)};
}

}  // namespace h5feed::cli
