// SPDX-License-Identifier: Apache-2.0
#include "python/src/process.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "h5feed/log.hpp"
#include "python/src/errors.hpp"
#include "python/src/text.hpp"

namespace h5feed::python {
namespace {

std::atomic<std::uint64_t> generation = 0;

struct Line {
  LogLevel level;
  std::string text;
};

// Lines wait here because a worker must not take the GIL to log: the consumer may hold it while it waits.
struct Lines {
  static constexpr std::size_t kMost = 1000;
  std::mutex mutex;
  std::vector<Line> lines;
  std::atomic<bool> any = false;
};

// Never destroyed: a loader may log while the process exits.
Lines& lines() {
  static Lines* const waiting = new Lines;
  return *waiting;
}

void collect(LogLevel level, std::string_view text) {
  Lines& waiting = lines();
  const std::lock_guard lock(waiting.mutex);
  if (waiting.lines.size() < Lines::kMost) waiting.lines.push_back({level, std::string(text)});
  waiting.any = true;
}

struct Kept {
  std::shared_ptr<void> object;
  Kept* next = nullptr;
};

// Never destroyed, and reachable, so that leak checkers do not take it for a leak.
std::atomic<Kept*> kept = nullptr;

// Objects that `destroy` has given to other threads.
std::atomic<int> being_destroyed = 0;

void wait_for_destruction() {
  const GilRelease release;  // Callbacks of the objects may need it
  for (int tries = 0; tries < 500 && being_destroyed > 0; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace

void keep_forever(std::shared_ptr<void> object) noexcept {
  auto* const added = new Kept{std::move(object), kept.load(std::memory_order_relaxed)};
  while (!kept.compare_exchange_weak(added->next, added)) {
  }
}

void destroy(std::shared_ptr<void> object) noexcept {
  if (!in_callback()) {
    const GilRelease release;
    object.reset();
    return;
  }
  try {
    const auto held = std::make_shared<std::shared_ptr<void>>(object);
    object.reset();
    try {
      ++being_destroyed;
      std::thread([held] {
        held->reset();
        --being_destroyed;
      }).detach();
    } catch (const std::exception&) {  // No thread, or no memory for it
      --being_destroyed;
      keep_forever(*held);
    }
  } catch (const std::bad_alloc&) {
    keep_forever(std::move(object));
  }
}

std::uint64_t fork_generation() noexcept { return generation.load(std::memory_order_relaxed); }

InterruptCheck handling_signals() {
  return InterruptCheck([] {
    with_gil([] {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    });
  });
}

void deliver_log() {
  Lines& waiting = lines();
  if (!waiting.any.load(std::memory_order_relaxed)) return;
  std::vector<Line> taken;
  {
    const std::lock_guard lock(waiting.mutex);
    taken.swap(waiting.lines);
    waiting.any = false;
  }
  const nb::object log = nb::module_::import_("h5feed._errors").attr("log_from_core");
  for (const Line& line : taken) {
    log(line.level == LogLevel::warning, text_of(line.text));
  }
}

void bind_process(nb::module_& module) {
  pthread_atfork(nullptr, nullptr, [] {
    generation.fetch_add(1, std::memory_order_relaxed);
    being_destroyed = 0;  // by threads that a child does not have
  });
  set_log_sink(collect);
  module.def("fork_generation", &fork_generation,
             "How often this process and its ancestors forked since the module was loaded.");
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(wait_for_destruction));
  // Objects that others still refer to at the end of a program are no fault of its user.
  nb::set_leak_warnings(false);
  module.def("report_leaks", &nb::set_leak_warnings, nb::arg("report"),
             "Whether objects of the core that exist at the end of the interpreter are reported on stderr.");
  module.def("deliver_log", &deliver_log, "Sends the lines logged so far to the logger h5feed.");
}

}  // namespace h5feed::python
