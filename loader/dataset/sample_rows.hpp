// SPDX-License-Identifier: Apache-2.0
// Maps samples to the rows of one field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataset/episodes/anchors.hpp"
#include "dataset/tiles/tiling.hpp"
#include "h5feed/episodes.hpp"
#include "plan/epoch_key.hpp"

namespace h5feed {

/// The rows of a field that belong to each sample: one row of its own, the row of its image, or rows around
/// its anchor. Copies are cheap. Immutable and thread-safe, except the setters.
class SampleRows {
 public:
  /// Returned for a row that is missing and filled with zeros.
  static constexpr std::uint64_t kMissing = UINT64_MAX;

  /// Row i belongs to sample i.
  SampleRows() = default;
  /// Row i belongs to all tiles of image i.
  static SampleRows of_images(const Tiling& tiling);
  /// Rows around the anchors of samples; with another `per`, the row of the episode or the file.
  static SampleRows of_anchors(std::shared_ptr<const Anchors> anchors, FieldWindow window, FieldUnit per,
                               EpisodeOptions::Fill fill);

  /// Returns whether row i belongs to sample i alone, for all i.
  bool one_each() const noexcept { return !anchors_ && per_row_ == 1; }
  /// Returns whether samples of a row, or rows of a sample, may be several or others in each epoch, so that
  /// it is not known when a row was needed for the last time.
  bool around_anchors() const noexcept { return anchors_ != nullptr; }
  /// Returns the most samples that a row belongs to, if it belongs to an image; else 1.
  std::uint64_t samples_per_row() const noexcept { return per_row_; }

  /// Returns what the rows belong to; `row` also for those that belong to images.
  FieldUnit per() const noexcept { return per_; }
  /// Returns the window; without one, `offsets` is empty.
  const FieldWindow& window() const noexcept { return window_; }
  /// Returns whether a sample has a dimension of time.
  bool timed() const noexcept { return !window_.offsets.empty(); }
  /// Returns the number of rows of a sample, at least 1.
  std::size_t per_sample() const noexcept { return timed() ? window_.offsets.size() : 1; }

  /// Returns the row of a sample that has one row.
  std::uint64_t row_of(std::uint64_t sample, const EpochKey& key) const noexcept;
  /// Appends the `per_sample()` rows of a sample, in the order of the window, to `rows`. Throws
  /// std::bad_alloc.
  void append(std::uint64_t sample, const EpochKey& key, std::vector<std::uint64_t>& rows) const;
  /// Writes 1 for each of the `per_sample()` rows of a sample that exists, else 0. `out` has that size.
  void write_valid(std::uint64_t sample, const EpochKey& key, std::span<std::byte> out) const noexcept;

 private:
  std::uint64_t first_row_of(const Episode& episode) const noexcept {
    return episode.first_row + episode.number * window_.extra_rows;
  }

  std::uint64_t per_row_ = 1;             // samples of a row; the most if images differ in it
  std::shared_ptr<const Tiling> images_;  // set if images differ in their number of tiles
  std::shared_ptr<const Anchors> anchors_;
  FieldWindow window_;
  FieldUnit per_ = FieldUnit::row;
  EpisodeOptions::Fill fill_ = EpisodeOptions::Fill::repeat;
};

}  // namespace h5feed
