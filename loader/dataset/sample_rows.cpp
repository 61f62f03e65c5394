// SPDX-License-Identifier: Apache-2.0
#include "dataset/sample_rows.hpp"

#include <algorithm>
#include <utility>

namespace h5feed {
namespace {

// Returns whether the row at `offset` from row `frame` is one of `rows` rows.
bool exists(std::uint64_t frame, std::int64_t offset, std::uint64_t rows) noexcept {
  const std::int64_t row = static_cast<std::int64_t>(frame) + offset;
  return row >= 0 && row < static_cast<std::int64_t>(rows);
}

}  // namespace

SampleRows SampleRows::of_images(const Tiling& tiling) {
  SampleRows rows;
  rows.per_row_ = tiling.per_image();
  if (rows.per_row_ > 0) return rows;
  rows.per_row_ = std::ranges::max(tiling.runs(), {}, &TileRun::per_image).per_image;
  rows.images_ = std::make_shared<const Tiling>(tiling);
  return rows;
}

SampleRows SampleRows::of_anchors(std::shared_ptr<const Anchors> anchors, FieldWindow window, FieldUnit per,
                                  EpisodeOptions::Fill fill) {
  SampleRows rows;
  rows.anchors_ = std::move(anchors);
  rows.window_ = std::move(window);
  rows.per_ = per;
  rows.fill_ = fill;
  return rows;
}

std::uint64_t SampleRows::row_of(std::uint64_t sample, const EpochKey& key) const noexcept {
  if (!anchors_) return images_ ? images_->image_of(sample) : sample / per_row_;
  if (per_ == FieldUnit::episode) return anchors_->episode(anchors_->episode_of(sample)).number;
  const Anchors::Place anchor = anchors_->at(sample, key);
  if (per_ == FieldUnit::file) return anchors_->file_of(anchor);
  return anchors_->episode(anchor.episode).first_row + anchor.frame;
}

void SampleRows::append(std::uint64_t sample, const EpochKey& key, std::vector<std::uint64_t>& rows) const {
  if (!timed()) {
    rows.push_back(row_of(sample, key));
    return;
  }
  const Anchors::Place anchor = anchors_->at(sample, key);
  const Episode& episode = anchors_->episode(anchor.episode);
  const std::uint64_t first = first_row_of(episode);
  const std::uint64_t count = episode.rows + window_.extra_rows;
  for (const std::int64_t offset : window_.offsets) {
    if (!exists(anchor.frame, offset, count) && fill_ == EpisodeOptions::Fill::zero) {
      rows.push_back(kMissing);
      continue;
    }
    const std::int64_t frame = static_cast<std::int64_t>(anchor.frame) + offset;
    rows.push_back(first + static_cast<std::uint64_t>(
                               std::clamp<std::int64_t>(frame, 0, static_cast<std::int64_t>(count) - 1)));
  }
}

void SampleRows::write_valid(std::uint64_t sample, const EpochKey& key,
                             std::span<std::byte> out) const noexcept {
  const Anchors::Place anchor = anchors_->at(sample, key);
  const std::uint64_t count = anchors_->episode(anchor.episode).rows + window_.extra_rows;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = exists(anchor.frame, window_.offsets[i], count) ? std::byte{1} : std::byte{0};
}

}  // namespace h5feed
