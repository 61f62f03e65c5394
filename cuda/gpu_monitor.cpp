#include "cuda/gpu_monitor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace h5feed::gpu {
namespace {

constexpr std::chrono::milliseconds kShortestInterval(100);

// A running average; a value that is missing in some readings counts where it is there.
void average_in(std::optional<double>& average, const std::optional<double>& value, std::uint64_t readings) {
  if (!value) return;
  average = average ? *average + (*value - *average) / static_cast<double>(readings) : *value;
}

}  // namespace

std::string GpuUse::to_string() const {
  if (readings == 0) return {};
  std::string text;
  const auto add = [&](const char* what, const std::optional<double>& share) {
    if (!share) return;
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", what, *share * 100);
  };
  add("the GPU was busy", busy);
  add("its SMs", sm_active);
  add("tensor cores", tensor_active);
  add("memory", dram_active);
  const std::string throttled = throttle_text(throttle_reasons);
  if (!throttled.empty()) text += fmt::format("{}clocks lowered: {}", text.empty() ? "" : "; ", throttled);
  return text;
}

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
  average_in(use_.busy, reading.busy, use_.readings);
  average_in(use_.power_w, reading.power_w, use_.readings);
  // The first reading has no GPM metrics: they are differences.
  const std::uint64_t differences = std::max<std::uint64_t>(1, use_.readings - 1);
  average_in(use_.sm_active, reading.sm_active, differences);
  average_in(use_.tensor_active, reading.tensor_active, differences);
  average_in(use_.dram_active, reading.dram_active, differences);
  if (reading.memory_used_bytes) {
    use_.peak_memory_used_bytes =
        std::max(use_.peak_memory_used_bytes.value_or(0), *reading.memory_used_bytes);
  }
  use_.throttle_reasons |= reading.throttle_reasons.value_or(0);
  use_.last = reading;
}

}  // namespace h5feed::gpu
