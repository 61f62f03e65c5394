// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/row_read_choice.hpp"

#include <algorithm>
#include <cstdint>

#include "flow/resolve/advice.hpp"

namespace h5feed {
namespace {

// Orders of magnitude suffice: the two costs differ widely, or the choice does not matter.
constexpr double kCallNs = 700;  // one pread(2)
constexpr double kMemoryNsPerByte = 0.2;
constexpr double kStorageNs = 25'000;  // one random read of solid-state storage with several in flight
constexpr double kStorageNsPerByte = 1;
constexpr double kPageBytes = 4096;

constexpr std::uint64_t kProbes = 32;

bool mostly_resident(const ChunkReader& reader) {
  const std::uint64_t rows = reader.info().rows();
  const std::uint64_t probes = std::min(kProbes, rows);
  std::uint64_t resident = 0;
  for (std::uint64_t i = 0; i < probes; ++i) resident += reader.row_resident(rows / probes * i) ? 1U : 0U;
  return resident * 2 > probes;
}

}  // namespace

bool has_rows_apart(const DatasetState& dataset) noexcept {
  return dataset.sparse ? dataset.sparse->reader->rows_apart() : dataset.data.reader->rows_readable();
}

bool rows_cheaper_than_chunks(const DatasetState& dataset, const ResolvedOptions& options) {
  const ChunkReader& reader = *dataset.data.reader;
  const std::uint64_t row_bytes_stored =
      dataset.sparse ? dataset.sparse->mean_row_bytes() : reader.info().row_bytes();
  if (!has_rows_apart(dataset) || options.shuffle.kind() != Shuffle::Kind::full ||
      row_bytes_stored * reader.info().rows() <= options.cache_bytes) {
    return false;
  }
  const auto row_bytes = static_cast<double>(row_bytes_stored);
  // A row served through the cache costs its share of the decodes of its chunk.
  const double chunk_bytes = expected_decodes_per_chunk(dataset, options) * row_bytes;
  if (mostly_resident(reader)) return kCallNs < chunk_bytes * kMemoryNsPerByte;
  return kStorageNs + std::max(row_bytes, kPageBytes) * kStorageNsPerByte < chunk_bytes * kStorageNsPerByte;
}

}  // namespace h5feed
