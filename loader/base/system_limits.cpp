// SPDX-License-Identifier: Apache-2.0
#include "base/system_limits.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace h5feed {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  if (!in || !std::getline(in, line)) return std::nullopt;
  return line;
}

// Parses a decimal number; returns nullopt for "max", "-1" and anything else that is not one.
std::optional<std::uint64_t> as_number(std::string_view text) {
  std::uint64_t value = 0;
  if (text.empty()) return std::nullopt;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (value > (std::numeric_limits<std::uint64_t>::max() - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  return value;
}

std::optional<std::uint64_t> number_in(const fs::path& path) {
  const auto line = first_line(path);
  return line ? as_number(*line) : std::nullopt;
}

// Returns the field "Key:   123 kB" of /proc/meminfo or /proc/self/status in bytes.
std::optional<std::uint64_t> kib_field(const fs::path& path, std::string_view key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    std::istringstream rest(line.substr(key.size()));
    std::uint64_t kib = 0;
    if (rest >> kib) return kib * 1024;
  }
  return std::nullopt;
}

// Returns the field "key 123" of memory.stat in bytes; 0 if there is none.
std::uint64_t stat_field(const fs::path& path, std::string_view key) {
  std::ifstream in(path);
  std::string name;
  for (std::uint64_t value = 0; in >> name >> value;) {
    if (name == key) return value;
  }
  return 0;
}

// Returns the path of the process within a cgroup hierarchy. `controller`: "" for the unified hierarchy (v2),
// else a v1 controller.
std::optional<std::string> cgroup_path(const fs::path& root, std::string_view controller) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::istringstream names(line.substr(first + 1, second - first - 1));
    if (controller.empty() && second == first + 1) return line.substr(second + 1);
    for (std::string name; std::getline(names, name, ',');) {
      if (!controller.empty() && name == controller) return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

// Returns the directory of the group and its parents up to the mount, because a limit on any level applies.
// In a container the path may name directories of the host that are not mounted; those do not exist here, and
// the mount itself holds the limits of the container.
std::vector<fs::path> cgroup_dirs(const fs::path& mount, const std::string& path) {
  std::vector<fs::path> dirs;
  for (fs::path p = fs::path(path).relative_path(); !p.empty(); p = p.parent_path())
    dirs.push_back(mount / p);
  dirs.push_back(mount);
  return dirs;
}

class Minimum {
 public:
  explicit Minimum(double value, std::string source) : value_(value), source_(std::move(source)) {}
  void consider(double value, std::string_view source) {
    if (value < value_) {
      value_ = value;
      source_ = source;
    }
  }
  double value() const { return value_; }
  const std::string& source() const { return source_; }

 private:
  double value_;
  std::string source_;
};

void consider_cpu_quota(const fs::path& root, Minimum& cpus) {
  if (const auto path = cgroup_path(root, "")) {
    for (const fs::path& dir : cgroup_dirs(root / "sys/fs/cgroup", *path)) {
      const auto line = first_line(dir / "cpu.max");
      if (!line) continue;
      std::istringstream in(*line);
      std::string quota;
      double period = 0;
      in >> quota >> period;
      const auto limit = as_number(quota);
      if (limit && period > 0) cpus.consider(static_cast<double>(*limit) / period, "cgroup cpu quota");
    }
  }
  if (const auto path = cgroup_path(root, "cpu")) {
    for (const char* mount : {"sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"}) {
      for (const fs::path& dir : cgroup_dirs(root / mount, *path)) {
        const auto quota = number_in(dir / "cpu.cfs_quota_us");
        const auto period = number_in(dir / "cpu.cfs_period_us");
        if (quota && period && *period > 0) {
          cpus.consider(static_cast<double>(*quota) / static_cast<double>(*period), "cgroup cpu quota");
        }
      }
    }
  }
}

// Reclaimable page cache counts as used in memory.current but can still be allocated.
double left_in_group(std::uint64_t limit, std::uint64_t used, std::uint64_t reclaimable) {
  const std::uint64_t taken = used > reclaimable ? used - reclaimable : 0;
  return limit > taken ? static_cast<double>(limit - taken) : 0.0;
}

void consider_memory_groups(const fs::path& root, Minimum& memory) {
  if (const auto path = cgroup_path(root, "")) {
    for (const fs::path& dir : cgroup_dirs(root / "sys/fs/cgroup", *path)) {
      for (const char* file : {"memory.max", "memory.high"}) {
        const auto limit = number_in(dir / file);
        if (!limit) continue;
        memory.consider(left_in_group(*limit, number_in(dir / "memory.current").value_or(0),
                                      stat_field(dir / "memory.stat", "inactive_file")),
                        "cgroup memory");
      }
    }
  }
  if (const auto path = cgroup_path(root, "memory")) {
    for (const fs::path& dir : cgroup_dirs(root / "sys/fs/cgroup/memory", *path)) {
      const auto limit = number_in(dir / "memory.limit_in_bytes");
      if (!limit) continue;
      memory.consider(left_in_group(*limit, number_in(dir / "memory.usage_in_bytes").value_or(0),
                                    stat_field(dir / "memory.stat", "total_inactive_file")),
                      "cgroup memory");
    }
  }
}

void consider_rlimit(int resource, std::uint64_t used, std::string_view name, Minimum& memory) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return;
  memory.consider(left_in_group(limit.rlim_cur, used, 0), name);
}

std::optional<std::uint64_t> lockable_memory() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

double affinity_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace

SystemLimits system_limits(const fs::path& root) {
  const long host_cpus = std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
  Minimum cpus(static_cast<double>(host_cpus), "host");
  cpus.consider(affinity_cpus(), "affinity");  // includes the cpuset of a container
  consider_cpu_quota(root, cpus);

  const auto host = kib_field(root / "proc/meminfo", "MemAvailable:");
  Minimum memory(static_cast<double>(host.value_or(std::uint64_t{1} << 30)), "host");
  consider_memory_groups(root, memory);
  const fs::path status = root / "proc/self/status";
  consider_rlimit(RLIMIT_AS, kib_field(status, "VmSize:").value_or(0), "ulimit -v", memory);
  consider_rlimit(RLIMIT_DATA, kib_field(status, "VmData:").value_or(0), "ulimit -d", memory);

  SystemLimits limits;
  limits.cpus = static_cast<unsigned>(std::max(1.0, std::floor(cpus.value())));
  limits.cpus_bound_by = cpus.source();
  limits.host_cpus = static_cast<unsigned>(host_cpus);
  limits.available_bytes = static_cast<std::uint64_t>(memory.value());
  limits.memory_bound_by = memory.source();
  limits.lockable_bytes = lockable_memory();
  return limits;
}

}  // namespace h5feed
