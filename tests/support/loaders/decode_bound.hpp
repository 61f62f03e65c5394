// SPDX-License-Identifier: Apache-2.0
// The bound of decodes per chunk that tests hold loaders to, in a cache as large as plan() says.
#pragma once

#include <cstdint>

namespace h5feed::test {

/// Returns how often a chunk may be decoded, on average over an epoch. With workers the order of visits
/// depends on the scheduler of a busy machine: one may come after its chunk has left the cache.
inline double most_decodes(std::int64_t num_workers) { return num_workers > 0 ? 1.4 : 1.2; }

}  // namespace h5feed::test
