// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/dataset_fingerprint.hpp"

#include <cstring>
#include <span>

#include "plan/permutation.hpp"
#include "plan/streams.hpp"

namespace h5feed {
namespace {

void add_bytes(std::uint64_t& hash, std::span<const std::byte> bytes) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  hash = mix_key(hash, kPlanHash, bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(kWord, bytes.size() - at));
    hash = mix_key(hash, kPlanHash, word);
  }
}

void add_field(std::uint64_t& hash, const Field& field) {
  const DatasetInfo& info = field.info();
  add_bytes(hash, std::as_bytes(std::span(info.path)));
  hash = mix_key(hash, kPlanHash, static_cast<std::uint64_t>(info.dtype));
  for (const std::uint64_t extent : info.shape) hash = mix_key(hash, kPlanHash, extent);
}

}  // namespace

std::uint64_t dataset_fingerprint(const DatasetState& dataset) {
  std::uint64_t hash = 0;
  add_field(hash, dataset.data);
  if (dataset.tiling) {
    for (const TileAxis* const axis : {&dataset.tiling->y, &dataset.tiling->x}) {
      hash = mix_key(hash, kPlanHash, axis->stride);
      hash = mix_key(hash, kPlanHash, axis->inside ? 1 : 0);
    }
  }
  if (dataset.target) {
    add_field(hash, *dataset.target);
    if (dataset.target->is_resident()) add_bytes(hash, dataset.target->resident.span());
  }
  return hash;
}

}  // namespace h5feed
