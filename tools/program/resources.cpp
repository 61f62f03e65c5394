// SPDX-License-Identifier: Apache-2.0
#include "tools/program/resources.hpp"

#include <malloc.h>
#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <string>

namespace h5feed::cli {

ResourceUsage& ResourceUsage::operator+=(const ResourceUsage& other) noexcept {
  user_s += other.user_s;
  system_s += other.system_s;
  voluntary_switches += other.voluntary_switches;
  involuntary_switches += other.involuntary_switches;
  return *this;
}

ResourceUsage operator-(const ResourceUsage& end, const ResourceUsage& begin) noexcept {
  return {end.user_s - begin.user_s, end.system_s - begin.system_s,
          end.voluntary_switches - begin.voluntary_switches,
          end.involuntary_switches - begin.involuntary_switches};
}

ResourceUsage resource_usage() noexcept {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return {seconds(usage.ru_utime), seconds(usage.ru_stime), usage.ru_nvcsw, usage.ru_nivcsw};
}

void reset_peak_rss() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // proc(5): resets VmHWM
}

std::uint64_t peak_rss_bytes() {
  static const std::string kKey = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kKey)) continue;
    std::uint64_t kib = 0;
    std::istringstream(line.substr(kKey.size())) >> kib;
    return kib * 1024;
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace h5feed::cli
