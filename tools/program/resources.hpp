// SPDX-License-Identifier: Apache-2.0
// Resources that this process has used.
#pragma once

#include <cstdint>

namespace h5feed::cli {

/// Totals of all threads since the process started.
struct ResourceUsage {
  double user_s = 0;
  double system_s = 0;
  std::int64_t voluntary_switches = 0;
  std::int64_t involuntary_switches = 0;

  ResourceUsage& operator+=(const ResourceUsage& other) noexcept;
};

ResourceUsage operator-(const ResourceUsage& end, const ResourceUsage& begin) noexcept;

/// Returns the totals of this process so far.
ResourceUsage resource_usage() noexcept;

/// Resets the peak of resident memory, after returning freed memory to the system. If the kernel refuses,
/// `peak_rss_bytes` covers the whole life of the process.
void reset_peak_rss();

/// Returns the peak of resident memory since the last `reset_peak_rss`, or since the process started.
std::uint64_t peak_rss_bytes();

}  // namespace h5feed::cli
