// SPDX-License-Identifier: Apache-2.0
// How busy other processes keep the machine.
#pragma once

#include <optional>

#include "base/clock.hpp"

namespace h5feed::cli {

/// Counts from its construction on. Not thread-safe.
class BusyElsewhere {
 public:
  BusyElsewhere();

  /// Returns the share of the machine's CPU time, 0 to 1, that other processes have used since the
  /// construction; empty if the kernel does not tell, or too little time has passed.
  std::optional<double> share() const;

 private:
  Clock::time_point start_;
  std::optional<double> busy_s_;  // CPU time of all processes at the start
  double own_s_ = 0;              // CPU time of this process at the start
};

}  // namespace h5feed::cli
