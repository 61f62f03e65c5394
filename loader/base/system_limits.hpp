// SPDX-License-Identifier: Apache-2.0
// CPUs and memory that this process may use. CPU affinity and the limits of containers count, not the size of
// the host.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace h5feed {

/// The limits in force and their origin, for reports.
struct SystemLimits {
  unsigned cpus = 1;                  ///< CPUs that the process may use, at least 1
  std::string cpus_bound_by;          ///< The limit behind `cpus`: "affinity", "cgroup cpu quota", "host"
  unsigned host_cpus = 1;             ///< CPUs of the host that are online, at least 1
  std::uint64_t available_bytes = 0;  ///< Memory that the process can still allocate
  /// The limit behind `available_bytes`: "host", "cgroup memory", "ulimit -v", "ulimit -d".
  std::string memory_bound_by;
  /// Bytes of memory that may be locked (`ulimit -l`); unset: no limit.
  std::optional<std::uint64_t> lockable_bytes;
};

/// Reads the CPU affinity, cgroup v1 or v2 quota and memory limits, rlimits and /proc/meminfo. Ignores a
/// limit that cannot be read. For tests, `root` replaces "/" in the paths below /proc and /sys.
SystemLimits system_limits(const std::filesystem::path& root = "/");

}  // namespace h5feed
