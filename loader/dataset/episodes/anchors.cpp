// SPDX-License-Identifier: Apache-2.0
#include "dataset/episodes/anchors.hpp"

#include <algorithm>
#include <utility>

#include "plan/divide.hpp"
#include "plan/permutation.hpp"
#include "plan/streams.hpp"

namespace h5feed {
namespace {

// Returns the first row of an episode where a window misses at most `missing` rows in front of the episode.
std::uint64_t first_anchor(const std::vector<std::int64_t>& offsets, std::int64_t missing) {
  if (missing < 0 || static_cast<std::uint64_t>(missing) >= offsets.size()) return 0;
  const std::int64_t offset = offsets[static_cast<std::size_t>(missing)];
  return offset < 0 ? static_cast<std::uint64_t>(-offset) : 0;
}

// Returns the end of the rows of an episode where a window misses at most `missing` of the `rows` that its
// field has in the episode.
std::uint64_t end_of_anchors(const std::vector<std::int64_t>& offsets, std::int64_t missing,
                             std::uint64_t rows) {
  if (missing < 0 || static_cast<std::uint64_t>(missing) >= offsets.size()) return rows;
  const std::int64_t offset = offsets[offsets.size() - 1 - static_cast<std::size_t>(missing)];
  if (offset <= 0) return rows;
  return rows - std::min(rows, static_cast<std::uint64_t>(offset));
}

// Moves `row` by `offset`, at most to the first or the last of `rows` from `first` on.
std::uint64_t moved(std::uint64_t row, std::int64_t offset, std::uint64_t first, std::uint64_t rows) {
  if (offset < 0) return row - std::min(row - first, static_cast<std::uint64_t>(-offset));
  return std::min(row + static_cast<std::uint64_t>(offset), first + rows - 1);
}

}  // namespace

Anchors::Anchors(std::span<const Episode> episodes, const EpisodeOptions& options,
                 std::span<const FieldWindow> windows, std::vector<std::uint64_t> file_ends)
    : file_ends_(std::move(file_ends)), drawn_(options.anchors == EpisodeOptions::Anchors::one_random) {
  episodes_.reserve(episodes.size());
  for (const Episode& episode : episodes) {
    Run run{.rows = episode, .first_sample = num_samples_};
    std::uint64_t end = episode.rows;
    for (const FieldWindow& window : windows) {
      run.first_frame = std::max(run.first_frame, first_anchor(window.offsets, options.missing_before));
      end = std::min(end,
                     end_of_anchors(window.offsets, options.missing_after, episode.rows + window.extra_rows));
    }
    if (end > run.first_frame) run.anchors = end - run.first_frame;
    num_samples_ += samples_of(run);
    episodes_.push_back(run);
  }
}

std::uint64_t Anchors::episode_of(std::uint64_t sample) const noexcept {
  // Episodes without samples begin where the next one does: the last of them has the sample.
  const auto next = std::ranges::upper_bound(episodes_, sample, {}, &Run::first_sample);
  return static_cast<std::uint64_t>(next - episodes_.begin()) - 1;
}

std::uint64_t Anchors::file_of(const Place& anchor) const noexcept {
  const Episode& episode = episodes_[anchor.episode].rows;
  if (file_ends_.empty()) return episode.file;
  const auto end = std::ranges::upper_bound(file_ends_, episode.first_row + anchor.frame);
  return static_cast<std::uint64_t>(end - file_ends_.begin());
}

Anchors::Place Anchors::first_of(std::uint64_t sample) const noexcept {
  const std::uint64_t number = episode_of(sample);
  return {number, episodes_[number].first_frame + (sample - episodes_[number].first_sample)};
}

Anchors::Place Anchors::at(std::uint64_t sample, const EpochKey& key) const noexcept {
  Place place = first_of(sample);
  if (!drawn_) return place;
  const std::uint64_t bits = mix_key(mix_key(key.seed, kAnchor, key.epoch), kAnchor, sample);
  place.frame += draw_below(bits, episodes_[place.episode].anchors);
  return place;
}

std::uint64_t Anchors::samples_before(std::uint64_t row) const noexcept {
  const auto next = std::ranges::lower_bound(episodes_, row, {}, [](const Run& run) {
    return run.rows.first_row;  // episodes that begin in front of the row
  });
  if (next == episodes_.begin()) return 0;
  const Run& run = *(next - 1);
  const std::uint64_t first = run.rows.first_row + run.first_frame;
  return run.first_sample + (row > first ? std::min(row - first, samples_of(run)) : 0);
}

Anchors::Rows Anchors::touched(std::uint64_t first, std::uint64_t end,
                               const FieldWindow& window) const noexcept {
  const Place begin = first_of(first);
  Place last = first_of(end - 1);
  const Episode& first_episode = episodes_[begin.episode].rows;
  const Episode& last_episode = episodes_[last.episode].rows;
  if (drawn_) last.frame += episodes_[last.episode].anchors - 1;
  const std::int64_t front = window.offsets.empty() ? 0 : window.offsets.front();
  const std::int64_t back = window.offsets.empty() ? 0 : window.offsets.back();
  return {moved(first_episode.first_row + begin.frame, front, first_episode.first_row, first_episode.rows),
          moved(last_episode.first_row + last.frame, back, last_episode.first_row, last_episode.rows) + 1};
}

std::uint64_t least_group_rows(const FieldWindow& window, std::uint64_t height) noexcept {
  constexpr std::uint64_t kFactor = 6;
  return kFactor * height * (ceil_div(window.before(), height) + ceil_div(window.after(), height));
}

double chunks_per_window(std::span<const std::int64_t> offsets, double height) noexcept {
  double chunks = 1;
  for (std::size_t i = 1; i < offsets.size(); ++i)
    chunks += std::min(1.0, static_cast<double>(offsets[i] - offsets[i - 1]) / height);
  return chunks;
}

AnchorGroups group_anchors(const Anchors& anchors, const RowLayout& chunks,
                           std::span<const std::uint64_t> datasets, std::uint64_t min_rows,
                           const FieldWindow& window) {
  AnchorGroups groups;
  std::vector<RowLayout::Run> runs;
  std::uint64_t next_unused = 0;  // first chunk behind those that the groups so far touch
  const auto add = [&](std::uint64_t first_row, std::uint64_t end_row) {
    const std::uint64_t first = anchors.samples_before(first_row);
    const std::uint64_t end = anchors.samples_before(end_row);
    if (first == end) return;
    runs.push_back({.rows = end - first, .rows_per_chunk = end - first});
    const Anchors::Rows touched = anchors.touched(first, end, window);
    const std::uint64_t first_chunk = chunks.chunk_of(touched.first);
    const std::uint64_t end_chunk = chunks.chunk_of(touched.end - 1) + 1;
    groups.rows = std::max(groups.rows, end_row - first_row);
    groups.chunks = std::max(groups.chunks, end_chunk - first_chunk);
    groups.chunk_visits += end_chunk - first_chunk;
    groups.chunks_in_use += end_chunk - std::clamp(next_unused, first_chunk, end_chunk);
    next_unused = std::max(next_unused, end_chunk);
  };
  std::uint64_t first_row = 0;
  for (const std::uint64_t end_row : datasets) {
    // The groups of one dataset; the last one takes what is left.
    std::vector<std::uint64_t> begins;
    std::uint64_t begin = first_row;
    while (begin < end_row) {
      begins.push_back(begin);
      std::uint64_t end = begin;
      while (end < end_row && (end == begin || end - begin < min_rows))
        end = std::min(end_row, chunks.rows_of(chunks.chunk_of(end)).end);
      begin = end;
    }
    if (begins.size() > 1 && end_row - begins.back() < min_rows) begins.pop_back();
    begins.push_back(end_row);
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) add(begins[i], begins[i + 1]);
    first_row = end_row;
  }
  groups.samples = RowLayout(runs);
  return groups;
}

}  // namespace h5feed
