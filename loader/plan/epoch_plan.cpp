#include "plan/epoch_plan.hpp"

#include <algorithm>

namespace h5feed {
namespace {

std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) noexcept { return a / b + (a % b != 0 ? 1 : 0); }

// Streams of `mix_key`: what a key is for.
enum : std::uint64_t { kSampleOrder = 1, kChunkOrder = 2, kWindowOrder = 3 };

Permutation make_order(const PlanSpec& spec, std::uint64_t epoch, std::uint64_t num_chunks) {
  if (spec.shuffle.kind() == Shuffle::Kind::chunk) {
    return {num_chunks, mix_key(spec.seed, kChunkOrder, epoch)};
  }
  return {spec.num_samples, mix_key(spec.seed, kSampleOrder, epoch)};
}

}  // namespace

EpochPlan::EpochPlan(const PlanSpec& spec, std::uint64_t epoch)
    : spec_(spec),
      epoch_(epoch),
      num_chunks_(ceil_div(spec.num_samples, spec.rows_per_chunk)),
      window_rows_(std::min(spec.shuffle.window_chunks(), num_chunks_) * spec.rows_per_chunk),
      missing_rows_(num_chunks_ * spec.rows_per_chunk - spec.num_samples),
      order_(make_order(spec, epoch, num_chunks_)) {
  if (spec.shuffle.kind() == Shuffle::Kind::chunk) short_position_ = order_.position_of(num_chunks_ - 1);
}

std::uint64_t EpochPlan::num_batches() const noexcept {
  const std::uint64_t left = spec_.num_samples - std::min(spec_.start, spec_.num_samples);
  const std::uint64_t step = spec_.world_size * spec_.batch_size;
  return spec_.drop_last ? left / step : ceil_div(left, step);
}

std::vector<std::int64_t> EpochPlan::batch(std::uint64_t number) const {
  const std::uint64_t step = spec_.world_size * spec_.batch_size;
  const std::uint64_t begin = spec_.start + number * step;
  const std::uint64_t end = end_of_batch(number);
  std::vector<std::int64_t> samples;
  samples.reserve(spec_.batch_size);
  for (std::uint64_t p = begin + spec_.rank; p < end; p += spec_.world_size) {
    samples.push_back(static_cast<std::int64_t>(sample_at(p)));
  }
  return samples;
}

std::optional<std::uint64_t> EpochPlan::turn_of(std::uint64_t sample) const noexcept {
  const std::uint64_t position = position_of(sample);
  if (position < spec_.start) return std::nullopt;
  const std::uint64_t step = spec_.world_size * spec_.batch_size;
  const std::uint64_t number = (position - spec_.start) / step;
  const std::uint64_t in_batch = (position - spec_.start) % step;
  if (number >= num_batches() || in_batch % spec_.world_size != spec_.rank) return std::nullopt;
  return number * spec_.batch_size + in_batch / spec_.world_size;
}

std::uint64_t EpochPlan::end_of_batch(std::uint64_t number) const noexcept {
  return std::min(spec_.start + (number + 1) * spec_.world_size * spec_.batch_size, spec_.num_samples);
}

std::uint64_t EpochPlan::chunks_before(std::uint64_t position) const noexcept {
  if (position == 0) return 0;
  switch (spec_.shuffle.kind()) {
    case Shuffle::Kind::sequential:
      return ceil_div(position, spec_.rows_per_chunk);
    case Shuffle::Kind::full:
      return num_chunks_;
    case Shuffle::Kind::chunk:
      break;
  }
  const std::uint64_t chunks_per_window = window_rows_ / spec_.rows_per_chunk;
  return std::min(num_chunks_, (place_of(position - 1).window + 1) * chunks_per_window);
}

std::uint64_t EpochPlan::chunk_in_order(std::uint64_t place) const noexcept {
  return spec_.shuffle.kind() == Shuffle::Kind::chunk ? order_.at(place) : place;
}

std::uint64_t EpochPlan::sample_at(std::uint64_t position) const noexcept {
  switch (spec_.shuffle.kind()) {
    case Shuffle::Kind::sequential:
      return position;
    case Shuffle::Kind::full:
      return order_.at(position);
    case Shuffle::Kind::chunk:
      return in_window(position);
  }
  return position;
}

std::uint64_t EpochPlan::short_window() const noexcept {
  return short_position_ / (window_rows_ / spec_.rows_per_chunk);
}

// Chunks in permuted order form windows of K; all windows have `window_rows_` rows but the one with
// the short chunk, which lacks `missing_rows_`, and the last one, which may have fewer chunks.
EpochPlan::Place EpochPlan::place_of(std::uint64_t position) const noexcept {
  const std::uint64_t short_end = (short_window() + 1) * window_rows_ - missing_rows_;
  // Positions past the short window move up by what it lacks.
  const std::uint64_t full_position = position < short_end ? position : position + missing_rows_;
  return {full_position, full_position / window_rows_};
}

Permutation EpochPlan::window_order(std::uint64_t window) const noexcept {
  const std::uint64_t chunks_per_window = window_rows_ / spec_.rows_per_chunk;
  const std::uint64_t chunks = std::min(chunks_per_window, num_chunks_ - window * chunks_per_window);
  const std::uint64_t rows = chunks * spec_.rows_per_chunk - (window == short_window() ? missing_rows_ : 0);
  return {rows, mix_key(mix_key(spec_.seed, kWindowOrder, epoch_), kWindowOrder, window)};
}

std::uint64_t EpochPlan::in_window(std::uint64_t position) const noexcept {
  const std::uint64_t rows = spec_.rows_per_chunk;
  const std::uint64_t chunks_per_window = window_rows_ / rows;
  const auto [full_position, window] = place_of(position);
  const std::uint64_t first_chunk = window * chunks_per_window;
  std::uint64_t row = window_order(window).at(full_position - window * window_rows_);
  // Rows of the window in chunk order; the short chunk's missing rows are skipped.
  if (window == short_window() && row >= (short_position_ - first_chunk + 1) * rows - missing_rows_) {
    row += missing_rows_;
  }
  return order_.at(first_chunk + row / rows) * rows + row % rows;
}

std::uint64_t EpochPlan::position_of(std::uint64_t sample) const noexcept {
  switch (spec_.shuffle.kind()) {
    case Shuffle::Kind::sequential:
      return sample;
    case Shuffle::Kind::full:
      return order_.position_of(sample);
    case Shuffle::Kind::chunk:
      break;
  }
  const std::uint64_t rows = spec_.rows_per_chunk;
  const std::uint64_t place = order_.position_of(sample / rows);
  const std::uint64_t window = place / (window_rows_ / rows);
  std::uint64_t row = place * rows + sample % rows - window * window_rows_;
  if (window == short_window() && place > short_position_) row -= missing_rows_;
  const std::uint64_t full_position = window * window_rows_ + window_order(window).position_of(row);
  return window > short_window() ? full_position - missing_rows_ : full_position;
}

}  // namespace h5feed
