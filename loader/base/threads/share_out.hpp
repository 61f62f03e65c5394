// SPDX-License-Identifier: Apache-2.0
// Work that several threads share while their caller waits.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <thread>

#include "base/threads/first_error.hpp"
#include "h5feed/export.hpp"
#include "h5feed/interrupt.hpp"

namespace h5feed {

/// Calls `work`, which must not throw, on the calling thread and at the same time on up to `threads - 1`
/// more, and returns when all calls have. Where the system starts fewer threads, `work` is called fewer
/// times, so the calls must divide what there is to do among themselves.
H5FEED_EXPORT void run_on_threads(std::uint64_t threads, const std::function<void()>& work);

/// Hands out the numbers 0 … count-1, in this order, to the calling thread and up to `threads - 1` more, and
/// returns when all are done. Each thread calls `make_step()`, and then what it got with one number after the
/// other; so a step may own buffers that only its thread uses. After an exception no more numbers are handed
/// out, and `check_interrupt()` throws on the threads that help. Throws the first exception.
template <typename MakeStep>
void share_out(std::uint64_t count, std::uint64_t threads, const MakeStep& make_step) {
  std::atomic<std::uint64_t> next = 0;
  std::atomic<bool> failed = false;
  FirstError error;
  struct Abandoned {};
  const std::thread::id caller = std::this_thread::get_id();
  run_on_threads(std::min(threads, count), [&]() noexcept {
    try {
      std::optional<InterruptCheck> check;  // The caller may have one of its own
      if (std::this_thread::get_id() != caller) {
        check.emplace([&failed] {
          if (failed.load(std::memory_order_relaxed)) throw Abandoned();
        });
      }
      auto step = make_step();
      while (!failed.load(std::memory_order_relaxed)) {
        const std::uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
        if (number >= count) return;
        step(number);
      }
    } catch (...) {
      error.store(std::current_exception());
      failed = true;
    }
  });
  error.rethrow();
}

}  // namespace h5feed
