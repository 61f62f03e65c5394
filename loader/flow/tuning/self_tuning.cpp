// SPDX-License-Identifier: Apache-2.0
#include "flow/tuning/self_tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "h5feed/log.hpp"

namespace h5feed {
namespace {

// Windows that a choice has to stand before it is logged: the first one, and a later one.
constexpr unsigned kSettled = 4;
constexpr unsigned kLasting = 32;

std::string time_text(double ns) {
  return ns < 1e6 ? fmt::format("{:.3g} µs", ns / 1e3) : fmt::format("{:.3g} ms", ns / 1e6);
}

double since(std::uint64_t now, std::uint64_t before) noexcept { return static_cast<double>(now - before); }

}  // namespace

SelfTuning::SelfTuning(const WorkerController::Bounds& bounds, const Counters& counters,
                       const ThreadClocks& clocks, std::string cpus_bound_by)
    : counters_(counters),
      clocks_(clocks),
      bounds_(bounds),
      cpus_bound_by_(std::move(cpus_bound_by)),
      window_begin_{.now_ns = now_ns()},
      last_ns_(window_begin_.now_ns),
      controller_(bounds) {}

SelfTuning::Totals SelfTuning::totals() const {
  return {.now_ns = now_ns(),
          .busy_ns = counters_.busy_ns,
          .cpu_ns = clocks_.cpu_ns(),
          .storage_wait_ns = counters_.storage_wait_ns,
          .fetch_wait_ns = counters_.fetch_wait_ns,
          .batches = counters_.completed,
          .bytes = counters_.bytes_read};
}

// More workers do not shorten waits for the GPU.
std::uint64_t SelfTuning::input_wait_ns() const noexcept {
  const std::uint64_t others = counters_.wait_gpu_ns + counters_.wait_transfer_ns;
  return counters_.wait_ns - std::min<std::uint64_t>(counters_.wait_ns, others);
}

std::optional<SelfTuning::Choice> SelfTuning::delivered(std::uint64_t ready, bool goes_on) {
  const std::uint64_t now = now_ns();
  const std::uint64_t waits = input_wait_ns();
  const double wait = since(waits, std::exchange(last_wait_ns_, waits));
  const double passed = since(now, std::exchange(last_ns_, now));
  bool changed = false;
  {
    const MutexLock lock(mutex_);
    if (!controller_.add({.consumer_ns = std::max(0.0, passed - wait),
                          .wait_ns = wait,
                          .counts = goes_on,
                          .ready = ready})) {
      return std::nullopt;
    }
    const Totals end = totals();
    const Totals begin = std::exchange(window_begin_, end);
    changed = controller_.end_window({.wall_ns = since(end.now_ns, begin.now_ns),
                                      .busy_ns = since(end.busy_ns, begin.busy_ns),
                                      .cpu_ns = since(end.cpu_ns, begin.cpu_ns),
                                      .storage_wait_ns = since(end.storage_wait_ns, begin.storage_wait_ns),
                                      .fetch_wait_ns = since(end.fetch_wait_ns, begin.fetch_wait_ns),
                                      .batches = end.batches - begin.batches,
                                      .bytes = end.bytes - begin.bytes});
  }
  standing_ = changed ? 0 : standing_ + 1;
  if (!changed) return std::nullopt;
  return choice();
}

SelfTuning::Choice SelfTuning::choice() const {
  const MutexLock lock(mutex_);
  return controller_.choice();
}

std::string SelfTuning::summary() const {
  const MutexLock lock(mutex_);
  return describe();
}

std::string SelfTuning::describe() const {
  const Choice choice = controller_.choice();
  const std::string waits =
      fmt::format("the consumer waited {:.0f} % of the time, and ", controller_.wait_share() * 100);
  std::string why;
  switch (controller_.reason()) {
    case WorkerController::Reason::start:
      why = "nothing was measured yet";
      break;
    case WorkerController::Reason::consumer:
      why = fmt::format("a batch takes {} of a worker, and the consumer uses it for {}",
                        time_text(controller_.worker_ns()), time_text(controller_.consumer_ns()));
      break;
    case WorkerController::Reason::cpus:
      why = waits +
            fmt::format("more would exceed the CPU limit of {:.3g} ({})", bounds_.cpu_limit, cpus_bound_by_);
      break;
    case WorkerController::Reason::reads:
      why = waits + "more did not read more bytes per second";
      break;
    case WorkerController::Reason::most:
      why = waits + "CPUs and memory_budget_bytes allow no more";
      break;
  }
  return fmt::format(
      "num_workers = auto: {} (at most {}), {} prefetched (at most {}), {} ahead (at most {}): {}",
      format_counted(choice.workers, "worker", "workers"), bounds_.workers,
      format_counted(static_cast<std::int64_t>(choice.batches), "batch", "batches"), bounds_.batches,
      format_counted(choice.reads, "read", "reads"), bounds_.reads, why);
}

void SelfTuning::log_if_lasting() {
  if (standing_ < (logged_workers_ == 0 ? kSettled : kLasting)) return;
  const std::int64_t workers = choice().workers;
  if (workers == logged_workers_) return;
  logged_workers_ = workers;
  log(LogLevel::info, summary());
}

}  // namespace h5feed
