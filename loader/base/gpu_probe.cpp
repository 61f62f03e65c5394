// SPDX-License-Identifier: Apache-2.0
#include "h5feed/gpu_probe.hpp"

#include <fmt/format.h>

namespace h5feed {
namespace {

void add_to(SeenValues& to, const SeenValues& more) noexcept {
  to.sum += more.sum;
  to.count += more.count;
}

SeenValues between(const SeenValues& end, const SeenValues& begin) noexcept {
  return {end.sum - begin.sum, end.count - begin.count};
}

}  // namespace

std::string GpuUse::to_string() const {
  std::string text;
  const auto say = [&](const char* what, const SeenValues& values) {
    if (const auto share = values.mean()) {
      text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", what, *share * 100);
    }
  };
  say("the GPU was busy", busy);
  say("its SMs", sm_active);
  say("tensor cores", tensor_active);
  say("memory", dram_active);
  if (!clocks_lowered_by.empty()) {
    text += fmt::format("{}clocks lowered: {}", text.empty() ? "" : "; ", clocks_lowered_by);
  }
  return text;
}

GpuUse& GpuUse::operator+=(const GpuUse& other) {
  readings += other.readings;
  add_to(busy, other.busy);
  add_to(sm_active, other.sm_active);
  add_to(tensor_active, other.tensor_active);
  add_to(dram_active, other.dram_active);
  add_to(power_w, other.power_w);
  // A later reading of a probe includes the reasons of all earlier ones.
  if (!other.clocks_lowered_by.empty()) clocks_lowered_by = other.clocks_lowered_by;
  return *this;
}

GpuUse operator-(const GpuUse& end, const GpuUse& begin) {
  GpuUse use;
  use.readings = end.readings - begin.readings;
  use.busy = between(end.busy, begin.busy);
  use.sm_active = between(end.sm_active, begin.sm_active);
  use.tensor_active = between(end.tensor_active, begin.tensor_active);
  use.dram_active = between(end.dram_active, begin.dram_active);
  use.power_w = between(end.power_w, begin.power_w);
  use.clocks_lowered_by = end.clocks_lowered_by;
  return use;
}

}  // namespace h5feed
