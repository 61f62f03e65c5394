// SPDX-License-Identifier: Apache-2.0
// Predicts how well an order mixes chunks within a batch.
#pragma once

#include <cstdint>

#include "h5feed/options.hpp"

namespace h5feed {

/// Returns the probability that two samples of one batch come from different chunks, divided by that of a
/// full shuffle: 1 for `full`, near 0 for `sequential` with chunks larger than a batch. Returns 1 if there is
/// nothing to mix: one chunk, or batches of one sample. The value is an expectation over seeds. It is exact
/// for up to 100,000 windows of K chunks (single chunks with `sequential`); larger datasets are judged by
/// their first 100,000 windows. All arguments are at least 1; `batch_size` is the sum over all ranks.
double mixing_score(std::uint64_t num_samples, std::uint64_t rows_per_chunk, std::uint64_t batch_size,
                    const Shuffle& shuffle);

}  // namespace h5feed
