// SPDX-License-Identifier: Apache-2.0
// Finds the episodes of a dataset in what its files say about them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataset/episodes/anchors.hpp"
#include "h5feed/episodes.hpp"

namespace h5feed {

/// A dataset of the data.
struct EpisodeDataset {
  std::string path;                ///< Path in its file
  std::vector<std::string> names;  ///< What the wildcards of the pattern match; empty without wildcards
  std::uint64_t rows = 0;
};

/// Episodes of one file, as its datasets or its table state them.
struct EpisodeFile {
  std::string file;                      ///< Path of the file, for messages
  std::vector<EpisodeDataset> datasets;  ///< In order
  std::vector<std::int64_t> table;       ///< Values of `EpisodeOptions::table`
  /// The list of `EpisodeOptions::only`: either names or numbers; both empty without a list.
  std::vector<std::string> only_names;
  std::vector<std::int64_t> only_numbers;
};

/// Episodes that take part, and how many there are.
struct EpisodeIndex {
  std::vector<Episode> episodes;
  std::uint64_t all = 0;  ///< Episodes of all files, also those that take no part
  /// The row after the last one of each file if an episode spans several files; else empty.
  std::vector<std::uint64_t> file_ends = {};
};

/// Finds the episodes of `files`. Throws DatasetError if a table does not fit the data, or a list names an
/// episode that does not exist or comes twice.
EpisodeIndex find_episodes(const EpisodeOptions& options, const std::vector<EpisodeFile>& files);

}  // namespace h5feed
