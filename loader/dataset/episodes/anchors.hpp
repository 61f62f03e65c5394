// SPDX-License-Identifier: Apache-2.0
// Anchors: the rows that the windows of samples are placed at.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/row_layout.hpp"
#include "h5feed/episodes.hpp"
#include "plan/epoch_key.hpp"

namespace h5feed {

/// A run of rows of the data that windows do not leave.
struct Episode {
  std::uint64_t first_row = 0;  ///< First row among all rows of the data
  std::uint64_t rows = 0;
  std::uint64_t number = 0;  ///< Number among all episodes, also those that take no part
  std::uint64_t file = 0;    ///< Number of the file
};

/// The rows that a field has for each sample: offsets from the anchor, ascending.
struct FieldWindow {
  std::vector<std::int64_t> offsets = {};  ///< Empty: the row of the anchor
  std::uint64_t extra_rows = 0;  ///< Rows that the field has in each episode in addition to those of the data

  /// Rows that the window reaches in front of the anchor.
  std::uint64_t before() const noexcept {
    return offsets.empty() || offsets.front() > 0 ? 0 : static_cast<std::uint64_t>(-offsets.front());
  }
  /// Rows that the window reaches behind the anchor.
  std::uint64_t after() const noexcept {
    return offsets.empty() || offsets.back() < 0 ? 0 : static_cast<std::uint64_t>(offsets.back());
  }
};

/// The samples of a dataset of episodes, numbered episode after episode. Immutable and thread-safe.
class Anchors {
 public:
  /// `episodes` ascend in rows. `windows` are those of all fields. If an episode spans several files,
  /// `file_ends` has the row after the last one of each file; else it is empty. Throws std::bad_alloc.
  Anchors(std::span<const Episode> episodes, const EpisodeOptions& options,
          std::span<const FieldWindow> windows, std::vector<std::uint64_t> file_ends = {});

  std::uint64_t num_samples() const noexcept { return num_samples_; }
  std::uint64_t num_episodes() const noexcept { return episodes_.size(); }
  /// Returns whether the anchor of each sample is drawn in each epoch.
  bool drawn() const noexcept { return drawn_; }

  /// A row of an episode.
  struct Place {
    std::uint64_t episode = 0;  ///< Number among the episodes that take part
    std::uint64_t frame = 0;    ///< Row within the episode
  };
  /// Returns the anchor of a sample. `key` has no effect unless `drawn()`. O(log episodes).
  Place at(std::uint64_t sample, const EpochKey& key) const noexcept;

  /// Returns the episode with this number among those that take part.
  const Episode& episode(std::uint64_t number) const noexcept { return episodes_[number].rows; }
  /// Returns the number of the episode that a sample belongs to. O(log episodes).
  std::uint64_t episode_of(std::uint64_t sample) const noexcept;
  /// Returns the number of the file that holds an anchor. O(log files).
  std::uint64_t file_of(const Place& anchor) const noexcept;
  /// Returns the number of samples whose anchors, or the first of them if they are drawn, are in front of
  /// `row` of the data. O(log episodes).
  std::uint64_t samples_before(std::uint64_t row) const noexcept;

  /// The rows of the data [first, end).
  struct Rows {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
  };
  /// Returns the rows that the windows of `window` may touch, of samples [`first`, `end`), which are not
  /// empty.
  Rows touched(std::uint64_t first, std::uint64_t end, const FieldWindow& window) const noexcept;

 private:
  struct Run {
    Episode rows;
    std::uint64_t first_sample = 0;
    std::uint64_t first_frame = 0;  // first anchor
    std::uint64_t anchors = 0;
  };
  Place first_of(std::uint64_t sample) const noexcept;
  std::uint64_t samples_of(const Run& run) const noexcept {
    return drawn_ ? (run.anchors > 0 ? 1 : 0) : run.anchors;
  }

  std::vector<Run> episodes_;
  std::vector<std::uint64_t> file_ends_;  // empty if each episode is in one file
  std::uint64_t num_samples_ = 0;
  bool drawn_;
};

/// The groups of samples that `chunk:K` permutes: the anchors in runs of whole chunks of one dataset.
struct AnchorGroups {
  RowLayout samples{0, 1};          ///< Samples of each group, which counts as a chunk
  std::uint64_t rows = 0;           ///< Rows of the data in the largest group
  std::uint64_t chunks = 0;         ///< Chunks of the data in the largest group, with those its windows reach
  std::uint64_t chunk_visits = 0;   ///< Sum over the groups of the chunks that their windows touch
  std::uint64_t chunks_in_use = 0;  ///< Chunks of the data that any window touches
};

/// Returns the least number of rows of a group, for windows over chunks of `height` rows: so many times the
/// rows that windows take from neighbours that these add at most a fifth to the chunks that are decoded, and
/// a batch that spans two groups has some room.
std::uint64_t least_group_rows(const FieldWindow& window, std::uint64_t height) noexcept;

/// Returns the mean number of chunks of `height` rows that the rows at these ascending offsets are in.
double chunks_per_window(std::span<const std::int64_t> offsets, double height) noexcept;

/// Computes the groups. `chunks` maps the rows of the data to chunks; `datasets` are the ends of its
/// datasets, in rows; a group has at least `min_rows` rows, if its dataset has, and what remains of a dataset
/// joins the group before. `window` is that of the data. Throws std::bad_alloc.
AnchorGroups group_anchors(const Anchors& anchors, const RowLayout& chunks,
                           std::span<const std::uint64_t> datasets, std::uint64_t min_rows,
                           const FieldWindow& window);

}  // namespace h5feed
