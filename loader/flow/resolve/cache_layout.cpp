// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/cache_layout.hpp"

#include <algorithm>
#include <cmath>

#include "cache/row_cache.hpp"

namespace h5feed {
namespace {

// Calls `visit` with each field whose chunks are decoded.
template <typename Visit>
void for_each_cached(const DatasetState& dataset, const ResolvedOptions& options, const Visit& visit) {
  for (std::size_t number = 0; number < dataset.num_fields(); ++number) {
    const Field* const field = dataset.field(number);
    if (field == nullptr || field->is_resident() || (number == kData && options.row_reads)) continue;
    visit(*field);
  }
}

}  // namespace

std::uint64_t cached_data_bytes(const DatasetState& dataset, const ResolvedOptions& options) {
  std::uint64_t bytes = 0;
  for_each_cached(dataset, options, [&](const Field& field) {
    const bool is_data = &field == &dataset.data;
    const std::uint64_t groups = is_data ? options.chunks_of_all_ranks : field.map.rows().num_chunks();
    const auto chunks =
        static_cast<std::uint64_t>(std::ceil(static_cast<double>(groups) * field.map.typical_pieces()));
    bytes += chunks * field.reader->chunk_bytes();
  });
  return bytes;
}

bool decodes_again(const DatasetState& dataset, const ResolvedOptions& options, std::uint64_t cache_bytes) {
  if (options.row_reads || dataset.data.map.typical_rows_per_chunk() < 2) return false;
  if (!options.sampled && options.shuffle.kind() != Shuffle::Kind::full) return false;
  return cached_data_bytes(dataset, options) > cache_bytes;
}

CacheLayout cache_layout(const DatasetState& dataset, const ResolvedOptions& options) {
  std::uint64_t largest_chunk = 0;
  std::uint64_t sample_bytes = 0;
  for_each_cached(dataset, options, [&](const Field& field) {
    largest_chunk = std::max(largest_chunk, field.reader->chunk_bytes());
    sample_bytes += field.map.pieces() * (field.map.chunk_row_bytes() + RowCache::kBookkeepingBytes);
  });
  const std::uint64_t decoding_bytes = static_cast<std::uint64_t>(options.concurrent_decodes) * largest_chunk;
  switch (options.cache_policy) {
    case CachePolicy::lru:
      break;
    case CachePolicy::clairvoyant:
      return {.chunk_bytes = decoding_bytes,
              .samples = sample_bytes > 0 ? options.cache_bytes / sample_bytes : 0};
    case CachePolicy::keep_first:
      return {.chunk_bytes = options.cache_bytes,
              .staying_bytes = options.cache_bytes - std::min(options.cache_bytes, decoding_bytes)};
  }
  return {.chunk_bytes = options.cache_bytes};
}

}  // namespace h5feed
