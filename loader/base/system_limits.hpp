// How many CPUs and how much memory this process may use: containers and affinity count, not the
// size of the host.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace h5feed {

/// Limits in force, and what set them (for reports).
struct SystemLimits {
  unsigned cpus = 1;                  ///< at least 1
  std::string cpus_bound_by;          ///< "affinity", "cgroup cpu quota", "host"
  std::uint64_t available_bytes = 0;  ///< memory that can still be taken
  std::string memory_bound_by;        ///< "host", "cgroup memory", "ulimit -v"
  /// Memory that may be locked (`ulimit -l`); unset: no limit.
  std::optional<std::uint64_t> lockable_bytes;
};

/// Reads affinity, cgroup v1 or v2 quota and memory limits, rlimits and /proc/meminfo. A limit that
/// cannot be read counts as absent. `root` replaces "/" for the files below /proc and /sys (tests).
SystemLimits system_limits(const std::filesystem::path& root = "/");

}  // namespace h5feed
