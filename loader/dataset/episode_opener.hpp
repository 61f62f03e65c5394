// SPDX-License-Identifier: Apache-2.0
// Finds the episodes of a dataset, and the rows that its fields have for the samples in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "dataset/episodes/anchors.hpp"
#include "dataset/field_opener.hpp"
#include "dataset/sample_rows.hpp"

namespace h5feed {

/// Returns whether the samples are placed in episodes: the options name them, a window, or a field that does
/// not belong to rows.
bool in_episodes(const DatasetOptions& options) noexcept;

/// Returns the unit of storage of a named field that does not state it.
SampleUnit default_unit(const DatasetOptions& options, const FieldOptions& field) noexcept;

/// Returns how many rows a field with this window, or a named field, has compared with the data.
RowCount row_count_of(const DatasetOptions& options, const std::vector<std::int64_t>& window,
                      FieldUnit per = FieldUnit::row) noexcept;

/// Finds episodes. Not thread-safe.
class EpisodeOpener {
 public:
  /// Requires `in_episodes(options)`. Throws OptionError for options that are out of range or contradict each
  /// other. `pool` opens the files.
  EpisodeOpener(const DatasetOptions& options, std::size_t num_files, std::shared_ptr<FilePool> pool);

  /// Returns the opener of the table, to pass to `open_file`; null without a table.
  PartOpener* table() noexcept { return table_ ? &*table_ : nullptr; }

  /// Finds the episodes and the anchors, after all files were opened. `fields[i]` is the opener of field
  /// number i; null if there is no target. Blocks. Throws DatasetError if tables do not fit the data, a field
  /// has other rows than it needs, or no sample fits; FileError, ChunkError.
  void find(std::span<const std::filesystem::path> files, std::span<const PartOpener* const> fields);

  /// Returns the rows of field number `field` that belong to samples.
  SampleRows rows_of(std::size_t field) const;
  /// Returns the options, with the defaults of a dataset that has windows only.
  const EpisodeOptions& options() const noexcept { return options_; }
  /// Returns the episodes of a dataset whose fields are all in `state`.
  Episodes finish(const DatasetState& state) const;

 private:
  struct FieldUse {
    FieldWindow window;
    FieldUnit per = FieldUnit::row;
  };
  std::vector<std::int64_t> table_values();
  void set_extra_rows(const PartOpener& data, const PartOpener& field, FieldUse& use) const;
  void check_field(const PartOpener& data, const PartOpener& field, const FieldUse& use, std::uint64_t files,
                   std::uint64_t episodes) const;
  [[noreturn]] void refuse_windows(const std::string& place, std::span<const Episode> episodes) const;

  const EpisodeOptions options_;
  const std::shared_ptr<FilePool> pool_;
  std::vector<FieldUse> uses_;  // one per field
  std::optional<FieldOpener> table_;
  std::shared_ptr<const Anchors> anchors_;
  std::vector<std::uint64_t> ends_;  // of the datasets of the data, or of the series, in rows
};

}  // namespace h5feed
