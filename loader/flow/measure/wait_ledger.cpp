// SPDX-License-Identifier: Apache-2.0
#include "flow/measure/wait_ledger.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/clock.hpp"

namespace h5feed {

WaitLedger::WaitLedger(Counters& counters) noexcept
    : counters_(counters),
      charged_({&counters.wait_read_ns, &counters.wait_decode_ns, &counters.wait_gather_ns,
                &counters.wait_transform_ns, &counters.wait_transfer_ns}),
      last_(totals()),
      last_ns_(now_ns()) {}

WaitLedger::Totals WaitLedger::totals() const noexcept {
  Totals now{.fetch = counters_.fetch_ns};
  // `fetch` is read first and counted last: reads of the workers are never negative.
  const std::uint64_t read = counters_.read_ns;
  now.stages = {read - std::min(read, now.fetch), counters_.decode_ns, counters_.gather_ns,
                counters_.transform_ns, counters_.transfer_ns};
  return now;
}

void WaitLedger::charge(std::uint64_t wait_ns, std::uint64_t now_ns, std::int64_t workers) noexcept {
  const Totals now = totals();
  std::array<double, kStages> work = {};
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    work[stage] = static_cast<double>(now.stages[stage] - std::min(now.stages[stage], last_.stages[stage]));
  }
  const double busy = std::accumulate(work.begin(), work.end(), 0.0);
  const double capacity = static_cast<double>(workers) * static_cast<double>(now_ns - last_ns_);
  work[kRead] += std::clamp(capacity - busy, 0.0, static_cast<double>(now.fetch - last_.fetch));
  last_ = now;
  last_ns_ = now_ns;

  pending_ns_ += wait_ns;
  const double all = std::accumulate(work.begin(), work.end(), 0.0);
  if (all <= 0) return;
  const auto pending = static_cast<double>(std::exchange(pending_ns_, 0));
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    if (work[stage] > 0)
      Counters::add(*charged_[stage], static_cast<std::uint64_t>(pending * work[stage] / all));
  }
}

}  // namespace h5feed
