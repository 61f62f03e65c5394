// SPDX-License-Identifier: Apache-2.0
#include "dataset/episodes/episode_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

// An episode within its file.
struct Found {
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;
  std::int64_t id = 0;  // number in the file, or that of the table
};

[[noreturn]] void refuse_table(const EpisodeOptions& options, const EpisodeFile& file,
                               const std::string& problem) {
  throw DatasetError(fmt::format("{}: {} {}", file.file, options.table, problem));
}

// Throws unless the table accounts for all rows of the data in the file.
void check_sum(const EpisodeOptions& options, const EpisodeFile& file, std::uint64_t sum,
               std::uint64_t rows) {
  if (sum == rows) return;
  refuse_table(options, file,
               fmt::format("says that the episodes have {} rows together, the data has {}; name the table of "
                           "this data",
                           format_count(sum), format_count(rows)));
}

std::vector<Found> by_lengths(const EpisodeOptions& options, const EpisodeFile& file, std::uint64_t rows) {
  std::vector<Found> found;
  std::uint64_t sum = 0;
  for (const std::int64_t length : file.table) {
    const auto number = static_cast<std::int64_t>(found.size());
    if (length < 0)
      refuse_table(
          options, file,
          fmt::format("gives episode {} the length {}; lengths must be 0 or more: name another table", number,
                      length));
    if (__builtin_add_overflow(sum, static_cast<std::uint64_t>(length), &sum))
      refuse_table(options, file, "adds up to more rows than can be counted; name another table");
    found.push_back({sum - static_cast<std::uint64_t>(length), static_cast<std::uint64_t>(length), number});
  }
  check_sum(options, file, sum, rows);
  return found;
}

std::vector<Found> by_ends(const EpisodeOptions& options, const EpisodeFile& file, std::uint64_t rows) {
  std::vector<Found> found;
  std::int64_t begin = 0;
  for (const std::int64_t end : file.table) {
    const auto number = static_cast<std::int64_t>(found.size());
    if (end < begin) {
      refuse_table(
          options, file,
          fmt::format("ends episode {} at row {}, before its first row {}; with lengths of episodes, "
                      "set index = lengths",
                      number, end, begin));
    }
    found.push_back({static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end - begin), number});
    begin = end;
  }
  check_sum(options, file, static_cast<std::uint64_t>(begin), rows);
  return found;
}

std::vector<Found> by_ids(const EpisodeOptions& options, const EpisodeFile& file, std::uint64_t rows) {
  if (file.table.size() != rows) {
    refuse_table(options, file,
                 fmt::format("has {} rows, the data has {}; a table of ids has one for each row",
                             format_count(file.table.size()), format_count(rows)));
  }
  std::vector<Found> found;
  std::set<std::int64_t> seen;
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::int64_t id = file.table[row];
    if (found.empty() || found.back().id != id) {
      if (!seen.insert(id).second) {
        refuse_table(
            options, file,
            fmt::format("continues episode {} at row {}, after another one; the rows of an episode must "
                        "follow each other: sort them",
                        id, format_count(row)));
      }
      found.push_back({row, 0, id});
    }
    ++found.back().rows;
  }
  return found;
}

std::vector<Found> by_datasets(const EpisodeFile& file) {
  std::vector<Found> found;
  std::uint64_t row = 0;
  for (const EpisodeDataset& dataset : file.datasets) {
    found.push_back({row, dataset.rows, static_cast<std::int64_t>(found.size())});
    row += dataset.rows;
  }
  return found;
}

std::string quoted(const std::string& name) { return fmt::format("\"{}\"", name); }

[[noreturn]] void refuse_only(const EpisodeOptions& options, const EpisodeFile& file,
                              const std::string& entry, const std::string& problem) {
  throw DatasetError(fmt::format("{}: {} lists {}, {}", file.file, options.only, entry, problem));
}

// Returns which episodes of the file take part.
std::vector<bool> chosen(const EpisodeOptions& options, const EpisodeFile& file,
                         const std::vector<Found>& found) {
  std::vector<bool> chosen(found.size(), options.only.empty());
  const auto choose = [&](std::size_t number, const std::string& entry) {
    if (chosen[number]) refuse_only(options, file, entry, "which comes twice; list each episode once");
    chosen[number] = true;
  };
  if (!file.only_names.empty()) {
    if (options.index != EpisodeOptions::Index::datasets || file.datasets.empty() ||
        file.datasets.front().names.empty()) {
      refuse_only(options, file, quoted(file.only_names.front()),
                  "and the episodes have no names: they are not groups that wildcards match; list numbers");
    }
    std::multimap<std::string, std::size_t> by_name;
    for (std::size_t i = 0; i < file.datasets.size(); ++i) {
      for (const std::string& name : file.datasets[i].names) by_name.emplace(name, i);
    }
    for (const std::string& name : file.only_names) {
      const auto [begin, end] = by_name.equal_range(name);
      if (begin == end) refuse_only(options, file, quoted(name), "which is none of the episodes of the data");
      for (auto at = begin; at != end; ++at) choose(at->second, quoted(name));
    }
  }
  if (!file.only_numbers.empty()) {
    std::map<std::int64_t, std::size_t> by_id;
    for (std::size_t i = 0; i < found.size(); ++i) by_id.emplace(found[i].id, i);
    for (const std::int64_t number : file.only_numbers) {
      const auto at = by_id.find(number);
      if (at == by_id.end())
        refuse_only(options, file, std::to_string(number), "which is none of the episodes of the data");
      choose(at->second, std::to_string(number));
    }
  }
  return chosen;
}

// Returns all rows of all files as one episode.
EpisodeIndex series_of(const std::vector<EpisodeFile>& files) {
  EpisodeIndex index{.episodes = {Episode{}}, .all = 1};
  std::uint64_t& rows = index.episodes.front().rows;
  for (const EpisodeFile& file : files) {
    for (const EpisodeDataset& dataset : file.datasets) rows += dataset.rows;
    index.file_ends.push_back(rows);
  }
  return index;
}

}  // namespace

EpisodeIndex find_episodes(const EpisodeOptions& options, const std::vector<EpisodeFile>& files) {
  if (options.index == EpisodeOptions::Index::series) return series_of(files);
  EpisodeIndex index;
  std::uint64_t first_row = 0;
  for (std::uint64_t number = 0; number < files.size(); ++number) {
    const EpisodeFile& file = files[number];
    std::uint64_t rows = 0;
    for (const EpisodeDataset& dataset : file.datasets) rows += dataset.rows;
    std::vector<Found> found;
    switch (options.index) {
      case EpisodeOptions::Index::datasets:
        found = by_datasets(file);
        break;
      case EpisodeOptions::Index::lengths:
        found = by_lengths(options, file, rows);
        break;
      case EpisodeOptions::Index::ends:
        found = by_ends(options, file, rows);
        break;
      case EpisodeOptions::Index::ids:
        found = by_ids(options, file, rows);
        break;
      case EpisodeOptions::Index::series:
        break;
    }
    const std::vector<bool> takes_part = chosen(options, file, found);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (takes_part[i])
        index.episodes.push_back({first_row + found[i].first_row, found[i].rows, index.all + i, number});
    }
    index.all += found.size();
    first_row += rows;
  }
  return index;
}

}  // namespace h5feed
