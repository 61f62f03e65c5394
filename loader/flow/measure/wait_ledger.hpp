// SPDX-License-Identifier: Apache-2.0
// Charges the consumer's waits to the stages that its batches were missing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "flow/measure/counters.hpp"

namespace h5feed {

/// Divides each wait in proportion to the time that the workers spent in each stage since the wait before it.
/// Time that readers spend ahead of decoding overlaps with the workers' own; it counts only as far as the
/// workers were idle. A wait in which no stage ended is divided together with the next one. For one thread;
/// borrows the counters.
class WaitLedger {
 public:
  explicit WaitLedger(Counters& counters) noexcept;

  /// Charges a wait of `wait_ns` that ends at `now_ns`; `workers` are active, 0 if the consumer does their
  /// work. Waits for GPU slots are not part of it.
  void charge(std::uint64_t wait_ns, std::uint64_t now_ns, std::int64_t workers) noexcept;

 private:
  enum Stage : std::size_t { kRead, kDecode, kGather, kTransformed, kTransfer, kStages };

  // Times since construction; `fetch` is that of reads ahead of decoding.
  struct Totals {
    std::array<std::uint64_t, kStages> stages = {};
    std::uint64_t fetch = 0;
  };
  Totals totals() const noexcept;

  Counters& counters_;
  const std::array<Counters::Counter*, kStages> charged_;
  Totals last_;
  std::uint64_t last_ns_;
  std::uint64_t pending_ns_ = 0;  // waits not charged yet
};

}  // namespace h5feed
