// SPDX-License-Identifier: Apache-2.0
// How the consumer waits for its next batch.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/clock.hpp"
#include "flow/data_loader_state.hpp"
#include "flow/measure/trace_span.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

constexpr std::chrono::hours kForever(24 * 365 * 10);

// Charges the time of its scope to the counters of waiting, and reports it to the trace.
class CountedWait {
 public:
  CountedWait(Counters& counters, WaitLedger& ledger, std::int64_t workers, const Device& device,
              TraceSink* trace, std::uint64_t batch)
      : counters_(counters),
        ledger_(ledger),
        workers_(workers),
        device_(device),
        before_(device.slot_waits()),
        span_(trace, Stage::wait, batch) {}
  CountedWait(const CountedWait&) = delete;
  CountedWait& operator=(const CountedWait&) = delete;
  ~CountedWait() {
    const SlotWaits after = device_.slot_waits();
    const std::uint64_t now = now_ns();
    const std::uint64_t all = now - begin_ns_;
    const std::uint64_t for_gpu = std::min(all, after.gpu_ns - before_.gpu_ns);
    const std::uint64_t for_copies = std::min(all - for_gpu, after.transfer_ns - before_.transfer_ns);
    Counters::add(counters_.wait_ns, all);
    Counters::add(counters_.wait_gpu_ns, for_gpu);
    Counters::add(counters_.wait_transfer_ns, for_copies);
    ledger_.charge(all - for_gpu - for_copies, now, workers_);
  }

 private:
  Counters& counters_;
  WaitLedger& ledger_;
  const std::int64_t workers_;
  const Device& device_;
  const SlotWaits before_;
  const std::uint64_t begin_ns_ = now_ns();
  const TraceSpan span_;
};

}  // namespace

bool DataLoader::State::reach_batch() {
  if (!delivering.running) start_epoch();
  if (delivering.echo_pending()) return true;
  while (delivering.round_taken() && !delivering.rest.empty()) {
    start_round(delivering.rest.front(), delivering.epoch, true);
    delivering.rest.pop_front();
    issue_jobs();
  }
  return !delivering.round_taken();
}

TicketRing::Deadline DataLoader::State::wait_deadline() {
  const auto& timeout = resolved.options.timeout;
  // Clock::now() plus the largest duration would overflow into the past.
  if (!timeout || *timeout >= kForever) return std::nullopt;
  if (!waiting_since) waiting_since = Clock::now();
  return *waiting_since + *timeout;
}

bool DataLoader::State::wait_ready(std::chrono::milliseconds limit) {
  const bool at_end = !reach_batch();
  if (delivering.echo_pending() || replayed) return true;
  if (at_end && resolved.options.num_workers == 0) return true;
  const CountedWait counted(counters, ledger, in_use().workers, *device, trace.get(), delivering.taken);
  const bool in_order = resolved.options.in_order;
  auto until = Clock::now() + std::clamp<std::chrono::milliseconds>(limit, {}, kForever);
  if (!at_end) ensure_issued();
  if (resolved.options.num_workers == 0) {
    while (!ring.is_complete(delivering.round, in_order)) {
      if (Clock::now() >= until) return false;
      prefetcher.run_one();
    }
    return true;
  }
  const TicketRing::Deadline timeout = wait_deadline();
  const bool times_out = timeout && *timeout <= until;  // then `next` throws, and so does not block
  if (times_out) until = *timeout;
  try {
    return (prefetcher.wait_initialized(until) && (at_end || ring.wait(delivering.round, in_order, until))) ||
           times_out;
  } catch (...) {
    return true;  // worker_init_fn failed: next() throws its exception
  }
}

void DataLoader::State::throw_timeout() const {
  throw TimeoutError(
      fmt::format("no batch within the timeout of {} ms (epoch {}, batch {}); call next() again to go "
                  "on waiting, or raise timeout or num_workers",
                  resolved.options.timeout->count(), delivering.epoch, delivering.delivered));
}

void DataLoader::State::wait_for_workers() {
  if (resolved.options.num_workers == 0) return;
  const bool initialized = prefetcher.wait_initialized(wait_deadline());
  waiting_since.reset();
  if (!initialized) throw_timeout();
}

std::shared_ptr<BatchJob> DataLoader::State::wait_for_batch() {
  const bool in_order = resolved.options.in_order;
  if (resolved.options.num_workers == 0) {
    while (true) {
      if (auto job = ring.try_take(delivering.round, in_order)) return job;
      prefetcher.run_one();
    }
  }
  const TicketRing::Deadline deadline = wait_deadline();
  std::shared_ptr<BatchJob> job;
  if (prefetcher.wait_initialized(deadline)) job = ring.take(delivering.round, in_order, deadline);
  waiting_since.reset();
  if (!job) throw_timeout();
  return job;
}

std::shared_ptr<BatchJob> DataLoader::State::take_job() {
  std::shared_ptr<BatchJob> job;
  {
    const CountedWait counted(counters, ledger, in_use().workers, *device, trace.get(), delivering.taken);
    ensure_issued();
    job = wait_for_batch();
  }
  ++delivering.delivered;
  ++delivering.taken;
  steer(*job);
  return job;
}

}  // namespace h5feed
