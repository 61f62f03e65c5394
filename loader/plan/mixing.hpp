// How well an order mixes chunks within a batch.
#pragma once

#include <cstdint>

#include "h5feed/options.hpp"

namespace h5feed {

/// The probability that two samples of one batch come from different chunks, divided by that of a full
/// shuffle: 1 for `full`, near 0 for `sequential` with chunks larger than a batch. 1 also where there is
/// nothing to mix: one chunk, or batches of one sample. The expectation over seeds, exact for up to 100,000
/// windows of K chunks (single chunks in `sequential`), of which larger sets are judged by. All arguments are
/// at least 1; with several ranks `batch_size` is that of all together.
double mixing_score(std::uint64_t num_samples, std::uint64_t rows_per_chunk, std::uint64_t batch_size,
                    const Shuffle& shuffle);

}  // namespace h5feed
