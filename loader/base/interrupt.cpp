// SPDX-License-Identifier: Apache-2.0
#include "base/interrupt.hpp"

#include <atomic>
#include <chrono>
#include <utility>

#include "base/clock.hpp"
#include "h5feed/interrupt.hpp"

namespace h5feed {
namespace {

constexpr std::chrono::milliseconds kInterval(20);

thread_local InterruptCheck* newest = nullptr;

std::atomic<void (*)()> stop_check = nullptr;

}  // namespace

InterruptCheck::InterruptCheck(std::function<void()> check)
    : check_(std::move(check)), outer_(newest), next_(Clock::now() + kInterval) {
  newest = this;
}

InterruptCheck::~InterruptCheck() { newest = outer_; }

void check_interrupt() {
  if (void (*const check)() = stop_check) check();
  InterruptCheck* const check = newest;
  if (check == nullptr || Clock::now() < check->next_) return;
  check->next_ = Clock::time_point::max();  // Not within itself, if it calls h5feed
  try {
    check->check_();
  } catch (...) {
    check->next_ = Clock::time_point::min();
    throw;
  }
  check->next_ = Clock::now() + kInterval;
}

void set_stop_check(void (*check)()) noexcept { stop_check = check; }

}  // namespace h5feed
