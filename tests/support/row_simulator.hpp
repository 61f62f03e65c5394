// What caches of rows and of chunks could do at best with a known sequence of requests. Shares no code with
// the loader.
#pragma once

#include <cstdint>
#include <vector>

namespace h5feed::test {

/// Samples in the order in which they are delivered, batch by batch, over any number of epochs.
using Requests = std::vector<std::vector<std::int64_t>>;

/// Chunks decoded in each of the first `epochs` epochs of `batches_per_epoch` batches. A batch visits each
/// chunk it has a row of once, in the order of its first such row.
struct Simulation {
  std::uint64_t rows_per_chunk = 1;
  std::uint64_t num_samples = 0;
  std::uint64_t batches_per_epoch = 1;
  std::uint64_t epochs = 1;

  /// Room for `capacity` rows; a decoded chunk leaves behind the rows that are needed soonest. `requests`
  /// go one epoch further, which is what the loader knows too.
  std::vector<std::uint64_t> belady_rows(const Requests& requests, std::uint64_t capacity) const;

  /// Room for `capacity` whole chunks, the one needed latest goes; or, with `lru`, the one used longest ago.
  std::vector<std::uint64_t> whole_chunks(const Requests& requests, std::uint64_t capacity, bool lru) const;
};

}  // namespace h5feed::test
