// SPDX-License-Identifier: Apache-2.0
// Episodes: samples that are windows in time around a row, within runs of rows that belong together.
#pragma once

#include <cstdint>
#include <string>

namespace h5feed {

/// Division of the rows of a dataset into episodes (trajectories, recordings, scans), which the windows of
/// samples do not leave, and the choice of the rows that windows are placed at.
///
/// The row that a window is placed at is its anchor. A row of the data is an anchor if no window of a field
/// has more than `missing_before` offsets in front of the first row of its episode, and more than
/// `missing_after` behind the last. If either is not 0, each field with a window brings a field of the name
/// and ".valid" ("data.valid", "target.valid"): uint8 (B,L), 1 for each row that exists, else 0.
struct EpisodeOptions {
  /// Source of the episodes. `datasets`: every dataset that `DatasetOptions::data` matches, in each file, is
  /// an episode. `series`: all rows are one episode, in which every dataset and file continues the one before
  /// it in the list, such as the years of a climate; windows reach across their borders. The others read
  /// `table`, in each file: `lengths`: the number of rows of each episode. `ends`: the end of each episode,
  /// the row after its last one. `ids`: a number for each row; an episode is a run of rows with the same one.
  enum class Index : std::uint8_t { datasets, lengths, ends, ids, series };
  /// Samples of an epoch. `every`: each anchor once. `one_random`: each episode with an anchor once, at an
  /// anchor that is drawn evenly from (seed, epoch, number of the sample).
  enum class Anchors : std::uint8_t { every, one_random };
  /// Values of rows that a window misses. `repeat`: the first or the last row of the episode. `zero`: stored
  /// values of 0, before `normalize`.
  enum class Fill : std::uint8_t { repeat, zero };

  /// Source of the episodes.
  Index index = Index::datasets;
  /// Path of the table of integers, one-dimensional, for an `index` of `lengths`, `ends` or `ids`.
  std::string table = {};
  /// Path of a list of the episodes that take part, in each file, such as "mask/train": names of the groups
  /// or datasets that the wildcards of `DatasetOptions::data` match, or integers: with `ids` the numbers of
  /// the table, else numbers of the episodes of the file from 0 on. Must be empty with `series`. Empty: all
  /// episodes.
  std::string only = {};
  /// Samples of an epoch.
  Anchors anchors = Anchors::every;
  /// Offsets of a window that may be in front of the episode; −1: any number.
  std::int64_t missing_before = 0;
  /// Offsets of a window that may be behind the episode; −1: any number.
  std::int64_t missing_after = 0;
  /// Values of missing rows.
  Fill fill = Fill::repeat;
};

/// Rows that the samples of a field take from it. `row`: the row of the anchor, or those of the window.
/// `episode`: one row, or with `EpisodeOptions::Index::datasets` one dataset, belongs to each episode; not
/// with `EpisodeOptions::Index::series`.
/// `file`: one dataset belongs to all samples of a file.
enum class FieldUnit : std::uint8_t { row, episode, file };

}  // namespace h5feed
