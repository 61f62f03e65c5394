// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/busy_elsewhere.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "tools/program/resources.hpp"

namespace h5feed::cli {
namespace {

// /proc/stat counts hundredths of a second.
constexpr double kLeastSeconds = 0.2;

// CPU time that all processes have used since the machine started.
std::optional<double> machine_busy_s() {
  std::ifstream in("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, soft_irq = 0, stolen = 0;
  in >> name >> user >> nice >> system >> idle >> waiting >> irq >> soft_irq >> stolen;
  if (!in || name != "cpu") return std::nullopt;
  return (user + nice + system + irq + soft_irq + stolen) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double own_cpu_s() {
  const ResourceUsage usage = resource_usage();
  return usage.user_s + usage.system_s;
}

}  // namespace

BusyElsewhere::BusyElsewhere() : start_(Clock::now()), busy_s_(machine_busy_s()), own_s_(own_cpu_s()) {}

std::optional<double> BusyElsewhere::share() const {
  const double seconds = seconds_since(start_);
  const std::optional<double> busy_s = machine_busy_s();
  if (!busy_s_ || !busy_s || seconds < kLeastSeconds) return std::nullopt;
  const double elsewhere = (*busy_s - *busy_s_) - (own_cpu_s() - own_s_);
  return std::clamp(elsewhere / seconds / static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN)), 0.0, 1.0);
}

}  // namespace h5feed::cli
