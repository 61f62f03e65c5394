// SPDX-License-Identifier: Apache-2.0
// Predicts what an epoch of a mixture costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"

namespace h5feed {

/// Returns how many chunks of the data the samples of an epoch come from, over all ranks; with a full shuffle
/// at most this many. Throws std::bad_alloc.
std::uint64_t mixture_chunks_drawn(const Mixture& mixture, const Shuffle& shuffle);

/// Returns the bytes of the chunks that consecutive samples come from, of all sets together and of the next
/// window of one set, in the order of `shuffle` unless a set has its own.
std::uint64_t mixture_bytes_in_play(const DatasetState& dataset, const Shuffle& shuffle);

/// Returns the plan of each set, for an epoch that starts with a full cache of `cache_bytes` for `lru`.
/// Requires a mixture. Throws std::bad_alloc.
std::vector<MixedSetPlan> forecast_sets(const DatasetState& dataset, const ResolvedOptions& options,
                                        std::uint64_t cache_bytes);

/// Returns how often `lru` decodes each of the chunks that an epoch draws from. Requires a mixture. Throws
/// std::bad_alloc.
double mixture_decodes_per_chunk(const DatasetState& dataset, const ResolvedOptions& options,
                                 std::uint64_t cache_bytes);

/// Returns the probability that two samples of one batch come from different chunks, divided by that of full
/// shuffles within the sets; see `mixing_score`. `batch_size` is the sum over all ranks. Throws
/// std::bad_alloc.
double mixture_mixing(const Mixture& mixture, std::uint64_t batch_size, const Shuffle& shuffle);

/// Returns "mixture, per epoch: set 0 70.0 %, 0.50 passes; set 1 30.0 %, 2.00 passes", the first 8 sets.
/// Throws std::bad_alloc.
std::string mixture_line(const Mixture& mixture);

}  // namespace h5feed
