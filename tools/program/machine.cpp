// SPDX-License-Identifier: Apache-2.0
#include "tools/program/machine.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/system_limits.hpp"

namespace h5feed::cli {
namespace {

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

Json machine_json() {
  const SystemLimits limits = system_limits();
  utsname kernel{};
  ::uname(&kernel);
  const auto memory_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return {{"cpu", cpu_model()},
          {"cores", limits.cpus},
          {"cores_bound_by", limits.cpus_bound_by},
          {"memory_bytes", memory_bytes},
          {"available_bytes", limits.available_bytes},
          {"memory_bound_by", limits.memory_bound_by},
          {"kernel", std::string(kernel.sysname) + " " + kernel.release}};
}

}  // namespace h5feed::cli
