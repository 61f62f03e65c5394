// SPDX-License-Identifier: Apache-2.0
// Simulates the best that caches of rows and of chunks can do for a known sequence of requests. Shares no
// code with the loader.
#pragma once

#include <cstdint>
#include <vector>

namespace h5feed::test {

/// Samples in delivery order, batch by batch, over any number of epochs.
using Requests = std::vector<std::vector<std::int64_t>>;

/// Computes the number of chunks decoded in each of the first `epochs` epochs of `batches_per_epoch` batches.
/// A batch visits each chunk that has one of its rows once, in the order of their first rows in the batch.
struct Simulation {
  std::uint64_t rows_per_chunk = 1;
  std::uint64_t num_samples = 0;
  std::uint64_t batches_per_epoch = 1;
  std::uint64_t epochs = 1;

  /// Returns the decoded chunks per epoch of a cache of `capacity` rows: of the rows of decoded chunks, it
  /// keeps those that are needed soonest. `requests` extend one epoch further, as the loader's own knowledge
  /// does.
  std::vector<std::uint64_t> belady_rows(const Requests& requests, std::uint64_t capacity) const;

  /// Returns the decoded chunks per epoch of a cache of `capacity` whole chunks, which evicts the chunk
  /// needed latest or, with `lru`, the least recently used.
  std::vector<std::uint64_t> whole_chunks(const Requests& requests, std::uint64_t capacity, bool lru) const;
};

}  // namespace h5feed::test
