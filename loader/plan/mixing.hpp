// How well an order mixes chunks within a batch.
#pragma once

#include <cstdint>

#include "h5feed/options.hpp"

namespace h5feed {

/// The probability that two samples of one batch come from different chunks, divided by that of a full
/// shuffle: 1 for `full`, near 0 for `sequential` with chunks larger than a batch. 1 where a full shuffle
/// could not do better than one chunk (a single chunk, or batches of one sample). Exact, as the
/// expectation over seeds, for `full` and `sequential`; for `chunk:K` too, but that the short last chunk is
/// taken to be in the last window. At least 1 of each argument; O(batch_size + rows of K chunks) time.
double mixing_score(std::uint64_t num_samples, std::uint64_t rows_per_chunk, std::uint64_t batch_size,
                    const Shuffle& shuffle);

}  // namespace h5feed
