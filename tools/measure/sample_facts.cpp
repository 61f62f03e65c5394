// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/sample_facts.hpp"

#include <algorithm>
#include <cstddef>

namespace h5feed::cli {
namespace {

std::uint64_t samples_per_chunk(const RowLayout& samples) {
  if (samples.num_chunks() == 0) return 1;
  return (samples.num_rows() - 1) / samples.num_chunks() + 1;
}

}  // namespace

bool SampleFacts::limits_comparable() const noexcept {
  for (std::size_t number = kTarget; number < state_->num_fields(); ++number) {
    if (number == kTarget && !state_->target) continue;
    const Field* const field = state_->field(number);
    if (field == nullptr || !field->is_resident()) return false;
  }
  return true;
}

std::uint64_t SampleFacts::all_bytes() const noexcept {
  const ChunkReader& reader = *data().reader;
  return sparse() == nullptr ? data().info().total_bytes() : reader.num_chunks() * reader.chunk_bytes();
}

double SampleFacts::data_bytes() const noexcept {
  return static_cast<double>(state_->delivers_csr() ? sparse()->mean_row_bytes() : data().sample_bytes());
}

double SampleFacts::cached_bytes() const noexcept {
  double bytes = sparse() == nullptr ? data_bytes() : static_cast<double>(sparse()->mean_row_bytes());
  for (std::size_t number = kTarget; number < state_->num_fields(); ++number) {
    const Field* const field = state_->field(number);
    if (field != nullptr && !field->is_resident()) bytes += static_cast<double>(field->sample_bytes());
  }
  return bytes;
}

std::uint64_t SampleFacts::window_samples(const Shuffle& shuffle) const noexcept {
  if (shuffle.kind() == Shuffle::Kind::full) return 1;
  std::uint64_t samples = 0;
  if (state_->mixture) {
    for (const MixtureSet& set : state_->mixture->sets()) samples += samples_per_chunk(set.layout);
  } else {
    samples = samples_per_chunk(state_->sample_layout());
  }
  return samples * std::max<std::uint64_t>(1, shuffle.window_chunks());
}

}  // namespace h5feed::cli
