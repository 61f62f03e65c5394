// SPDX-License-Identifier: Apache-2.0
#include "h5feed/stats.hpp"

#include <algorithm>

#include "flow/measure/ratio.hpp"

namespace h5feed {

double LoaderStats::cache_hit_rate() const noexcept { return ratio(cache_hits, cache_hits + cache_misses); }
double LoaderStats::wait_fraction() const noexcept { return std::min(1.0, ratio(wait_ns, epoch_ns)); }
double LoaderStats::read_amplification() const noexcept { return ratio(bytes_decoded, bytes_delivered); }

}  // namespace h5feed
