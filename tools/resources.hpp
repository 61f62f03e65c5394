// What this process has used.
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

ResourceUsage resource_usage() noexcept;

/// Starts a new peak of resident memory: what was freed is returned to the system first. Where the
/// kernel refuses, `peak_rss_bytes` covers the whole life of the process.
void reset_peak_rss();

/// Largest resident memory since `reset_peak_rss`.
std::uint64_t peak_rss_bytes();

}  // namespace h5feed::cli
