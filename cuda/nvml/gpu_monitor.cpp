// SPDX-License-Identifier: Apache-2.0
#include "cuda/nvml/gpu_monitor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/error.hpp"
#include "h5feed/gpu_monitor.hpp"

namespace h5feed::gpu {
namespace {

constexpr std::chrono::milliseconds kShortestInterval(100);

void add_to(SeenValues& values, const std::optional<double>& value) noexcept {
  if (value) values.add(*value);
}

}  // namespace

GpuMonitor::GpuMonitor(std::shared_ptr<Nvml> nvml, unsigned gpu, std::chrono::milliseconds interval,
                       std::function<void(const GpuReading&)> on_reading)
    : nvml_(std::move(nvml)),
      gpu_(gpu),
      interval_(std::max(interval, kShortestInterval)),
      on_reading_(std::move(on_reading)),
      thread_([this](const std::stop_token& stop) { watch(stop); }) {}

GpuUse GpuMonitor::use() const {
  const std::lock_guard lock(mutex_);
  return use_;
}

void GpuMonitor::watch(const std::stop_token& stop) {
  auto next = std::chrono::steady_clock::now();
  while (!stop.stop_requested()) {
    const GpuReading reading = nvml_->read(gpu_);
    add(reading);
    if (on_reading_) on_reading_(reading);
    next = std::max(next + interval_, std::chrono::steady_clock::now());
    std::unique_lock lock(mutex_);
    stopped_.wait_until(lock, stop, next, [] { return false; });
  }
}

void GpuMonitor::add(const GpuReading& reading) {
  const std::lock_guard lock(mutex_);
  ++use_.readings;
  add_to(use_.busy, reading.busy);
  add_to(use_.sm_active, reading.sm_active);
  add_to(use_.tensor_active, reading.tensor_active);
  add_to(use_.dram_active, reading.dram_active);
  add_to(use_.power_w, reading.power_w);
  throttle_reasons_ |= reading.throttle_reasons.value_or(0);
  use_.clocks_lowered_by = throttle_text(throttle_reasons_);
}

std::shared_ptr<const GpuProbe> monitor(std::string_view pci_id, std::chrono::milliseconds interval) {
  std::string why;
  std::shared_ptr<Nvml> nvml = Nvml::load({}, why);
  if (!nvml) throw DeviceError(why);
  std::optional<unsigned> gpu;
  if (!pci_id.empty()) {
    gpu = nvml->find(pci_id);
  } else if (nvml->count() == 1) {
    gpu = 0;
  }
  if (!gpu) {
    if (nvml->count() == 0) throw DeviceError("the driver lists no GPU; check nvidia-smi");
    std::vector<std::string> there;
    for (unsigned i = 0; i < nvml->count(); ++i) there.push_back(nvml->pci_id(i));
    const std::string choices = fmt::format("{}", fmt::join(there, ", "));
    if (!pci_id.empty())
      throw DeviceError(fmt::format("no GPU has the PCI address {}; use one of {}", pci_id, choices));
    throw DeviceError(
        fmt::format("pci_id is empty and this machine has {} GPUs; pass one of {}", there.size(), choices));
  }
  return std::make_shared<GpuMonitor>(std::move(nvml), *gpu, interval);
}

}  // namespace h5feed::gpu
