// SPDX-License-Identifier: Apache-2.0
#include "plan/whole_order.hpp"

#include <algorithm>

#include "plan/divide.hpp"
#include "plan/streams.hpp"

namespace h5feed {
namespace {

Permutation make_permutation(std::uint64_t num_samples, std::uint64_t num_chunks, const Shuffle& shuffle,
                             std::uint64_t seed, std::uint64_t epoch) {
  if (shuffle.kind() == Shuffle::Kind::chunk) return {num_chunks, mix_key(seed, kChunkOrder, epoch)};
  return {num_samples, mix_key(seed, kSampleOrder, epoch)};
}

}  // namespace

WholeOrder::WholeOrder(std::uint64_t num_samples, std::uint64_t rows_per_chunk, const Shuffle& shuffle,
                       std::uint64_t seed, std::uint64_t epoch)
    : SampleOrder(ceil_div(num_samples, rows_per_chunk)),
      num_samples_(num_samples),
      rows_per_chunk_(rows_per_chunk),
      kind_(shuffle.kind()),
      window_rows_(std::min(shuffle.window_chunks(), num_chunks()) * rows_per_chunk),
      missing_rows_(num_chunks() * rows_per_chunk - num_samples),
      window_key_(mix_key(seed, kWindowOrder, epoch)),
      order_(make_permutation(num_samples, num_chunks(), shuffle, seed, epoch)) {
  if (kind_ != Shuffle::Kind::chunk) return;
  short_position_ = order_.position_of(num_chunks() - 1);
  short_window_ = short_position_ / chunks_per_window();
}

std::uint64_t WholeOrder::at(std::uint64_t position) const noexcept {
  switch (kind_) {
    case Shuffle::Kind::sequential:
      return position;
    case Shuffle::Kind::full:
      return order_.at(position);
    case Shuffle::Kind::chunk:
      break;
  }
  return in_window(position);
}

std::optional<std::uint64_t> WholeOrder::position_of(std::uint64_t sample) const noexcept {
  if (sample >= num_samples_) return std::nullopt;
  switch (kind_) {
    case Shuffle::Kind::sequential:
      return sample;
    case Shuffle::Kind::full:
      return order_.position_of(sample);
    case Shuffle::Kind::chunk:
      break;
  }
  return position_in_windows(sample);
}

std::uint64_t WholeOrder::chunks_before(std::uint64_t position) const noexcept {
  if (position == 0) return 0;
  switch (kind_) {
    case Shuffle::Kind::sequential:
      return ceil_div(position, rows_per_chunk_);
    case Shuffle::Kind::full:
      return num_chunks();
    case Shuffle::Kind::chunk:
      break;
  }
  return std::min(num_chunks(), (place_of(position - 1).window + 1) * chunks_per_window());
}

std::uint64_t WholeOrder::chunk_in_order(std::uint64_t place) const noexcept {
  return kind_ == Shuffle::Kind::chunk ? order_.at(place) : place;
}

// Chunks in permuted order form windows of K. All windows have `window_rows_` rows, except the window with
// the short chunk, which is `missing_rows_` rows shorter, and the last window, which may have fewer chunks.
WholeOrder::Place WholeOrder::place_of(std::uint64_t position) const noexcept {
  const std::uint64_t short_end = (short_window_ + 1) * window_rows_ - missing_rows_;
  // Skip the missing rows for positions after the short window.
  const std::uint64_t full_position = position < short_end ? position : position + missing_rows_;
  return {full_position, full_position / window_rows_};
}

WholeOrder::Window WholeOrder::window(std::uint64_t number) const noexcept {
  const std::uint64_t first_chunk = number * chunks_per_window();
  const std::uint64_t chunks = std::min(chunks_per_window(), num_chunks() - first_chunk);
  const std::uint64_t rows = chunks * rows_per_chunk_ - (number == short_window_ ? missing_rows_ : 0);
  return {first_chunk, Permutation(rows, mix_key(window_key_, kWindowOrder, number))};
}

std::uint64_t WholeOrder::in_window(std::uint64_t position) const noexcept {
  const auto [full_position, number] = place_of(position);
  const Window here = window(number);
  std::uint64_t row = here.rows.at(full_position - number * window_rows_);
  // `row` counts the existing rows of the window in chunk order: skip the rows that the short chunk lacks.
  const std::uint64_t short_slot = short_position_ - here.first_chunk;
  if (number == short_window_ && row >= (short_slot + 1) * rows_per_chunk_ - missing_rows_)
    row += missing_rows_;
  const std::uint64_t chunk = order_.at(here.first_chunk + row / rows_per_chunk_);
  return chunk * rows_per_chunk_ + row % rows_per_chunk_;
}

std::uint64_t WholeOrder::position_in_windows(std::uint64_t sample) const noexcept {
  const std::uint64_t place = order_.position_of(sample / rows_per_chunk_);
  const std::uint64_t number = place / chunks_per_window();
  const Window here = window(number);
  std::uint64_t row = (place - here.first_chunk) * rows_per_chunk_ + sample % rows_per_chunk_;
  const std::uint64_t short_slot = short_position_ - here.first_chunk;
  if (number == short_window_ && row >= (short_slot + 1) * rows_per_chunk_) row -= missing_rows_;
  const std::uint64_t full_position = number * window_rows_ + here.rows.position_of(row);
  return number > short_window_ ? full_position - missing_rows_ : full_position;
}

}  // namespace h5feed
