// SPDX-License-Identifier: Apache-2.0
#include "plan/group_order.hpp"

#include <algorithm>
#include <utility>

#include "plan/streams.hpp"

namespace h5feed {

ChunkGroup whole_chunk(const RowLayout& layout, std::uint64_t chunk) noexcept {
  const RowLayout::Rows rows = layout.rows_of(chunk);
  return {chunk, rows.first, rows.count()};
}

std::vector<ChunkGroup> chunk_groups(const RowLayout& layout, const SampleSubset* subset) {
  std::vector<ChunkGroup> groups;
  if (subset == nullptr) {
    groups.reserve(layout.num_chunks());
    for (std::uint64_t chunk = 0; chunk < layout.num_chunks(); ++chunk)
      groups.push_back(whole_chunk(layout, chunk));
    return groups;
  }
  for (std::uint64_t place = 0; place < subset->size(); ++place) {
    const std::uint64_t chunk = layout.chunk_of(subset->sorted(place));
    if (groups.empty() || groups.back().chunk != chunk) groups.push_back({chunk, place, 0});
    ++groups.back().count;
  }
  return groups;
}

GroupOrder::GroupOrder(std::vector<ChunkGroup> groups, std::shared_ptr<const SampleSubset> subset,
                       RowLayout layout, const Shuffle& shuffle, std::uint64_t key)
    : SampleOrder(groups.size()),
      groups_(std::move(groups)),
      subset_(std::move(subset)),
      layout_(std::move(layout)),
      kind_(shuffle.kind()),
      window_groups_(static_cast<std::size_t>(
          std::max<std::uint64_t>(1, std::min<std::uint64_t>(shuffle.window_chunks(), groups_.size())))),
      key_(key) {
  if (kind_ == Shuffle::Kind::chunk && !groups_.empty()) {
    const Permutation order(groups_.size(), mix_key(key_, kChunkOrder, 0));
    std::vector<ChunkGroup> permuted;
    permuted.reserve(groups_.size());
    for (std::uint64_t place = 0; place < groups_.size(); ++place)
      permuted.push_back(groups_[order.at(place)]);
    groups_ = std::move(permuted);
  }
  begins_.reserve(groups_.size() + 1);
  places_.reserve(groups_.size());
  std::uint64_t rows = 0;
  for (const ChunkGroup& group : groups_) {
    places_.emplace_back(group.chunk, begins_.size());
    begins_.push_back(rows);
    rows += group.count;
  }
  begins_.push_back(rows);
  std::ranges::sort(places_);
}

std::size_t GroupOrder::group_at(std::uint64_t row) const noexcept {
  return static_cast<std::size_t>(std::ranges::upper_bound(begins_, row) - begins_.begin()) - 1;
}

GroupOrder::Window GroupOrder::window_of(std::size_t group) const noexcept {
  if (kind_ == Shuffle::Kind::full) return {0, groups_.size(), mix_key(key_, kSampleOrder, 0)};
  const std::size_t number = group / window_groups_;
  const std::size_t first = number * window_groups_;
  return {first, std::min(first + window_groups_, groups_.size()), mix_key(key_, kWindowOrder, number)};
}

std::uint64_t GroupOrder::at(std::uint64_t position) const noexcept {
  std::uint64_t row = position;
  if (kind_ != Shuffle::Kind::sequential) {
    const Window window = window_of(group_at(position));
    const std::uint64_t begin = begins_[window.first];
    row = begin + Permutation(begins_[window.end] - begin, window.key).at(position - begin);
  }
  const std::size_t group = group_at(row);
  const std::uint64_t place = groups_[group].first + row - begins_[group];
  return subset_ ? subset_->sorted(place) : place;
}

std::optional<std::uint64_t> GroupOrder::position_of(std::uint64_t sample) const noexcept {
  const std::optional<std::uint64_t> place = subset_ ? subset_->place_of(sample) : sample;
  if (sample >= layout_.num_rows()) return std::nullopt;
  const std::uint64_t chunk = layout_.chunk_of(sample);
  const auto found =
      std::ranges::lower_bound(places_, chunk, {}, &std::pair<std::uint64_t, std::uint64_t>::first);
  if (!place || found == places_.end() || found->first != chunk) return std::nullopt;
  const auto group = static_cast<std::size_t>(found->second);
  const std::uint64_t row = begins_[group] + *place - groups_[group].first;
  if (kind_ == Shuffle::Kind::sequential) return row;
  const Window window = window_of(group);
  const std::uint64_t begin = begins_[window.first];
  return begin + Permutation(begins_[window.end] - begin, window.key).position_of(row - begin);
}

std::uint64_t GroupOrder::chunks_before(std::uint64_t position) const noexcept {
  if (position == 0) return 0;
  const std::size_t group = group_at(position - 1);
  return kind_ == Shuffle::Kind::sequential ? group + 1 : window_of(group).end;
}

}  // namespace h5feed
