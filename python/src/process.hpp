// SPDX-License-Identifier: Apache-2.0
// What belongs to the process: its log, and whether it is a forked child.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "h5feed/interrupt.hpp"
#include "python/src/gil.hpp"

namespace h5feed::python {

namespace nb = nanobind;

/// Returns how often this process, and those it was forked from, were forked. Threads do not survive a fork:
/// an object made under another number must neither be used nor destroyed.
std::uint64_t fork_generation() noexcept;

/// Keeps an inherited object until the process ends: its threads do not exist here, so it cannot be
/// destroyed. Thread-safe; needs no GIL.
void keep_forever(std::shared_ptr<void> object) noexcept;

/// Drops the object, without the GIL. Within a callback, which may run on a thread of the object, another
/// thread drops it, for which the end of the process waits. Call with the GIL held.
void destroy(std::shared_ptr<void> object) noexcept;

/// Shared ownership of a C++ object that was made in this process. In a forked child it is never destroyed.
template <typename T>
class OfProcess {
 public:
  OfProcess() = default;
  explicit OfProcess(std::shared_ptr<T> object) : object_(std::move(object)) {}
  OfProcess(const OfProcess&) = delete;
  OfProcess& operator=(const OfProcess&) = delete;
  /// Destroys the object, if this is the last owner, as `destroy` does. Call with the GIL held.
  ~OfProcess() { reset(); }

  /// Returns whether the process was forked since the object was made.
  bool inherited() const noexcept { return generation_ != fork_generation(); }
  /// Returns the object; null after `reset`.
  const std::shared_ptr<T>& get() const noexcept { return object_; }

  /// Drops the object as `destroy` does. Call with the GIL held.
  void reset() {
    auto object = std::move(object_);
    if (!object) return;
    if (inherited()) {
      keep_forever(std::move(object));
    } else {
      destroy(std::move(object));
    }
  }

 private:
  std::shared_ptr<T> object_;
  std::uint64_t generation_ = fork_generation();
};

/// While the result exists, long calls of h5feed on this thread handle signals every 20 ms, as Python does
/// between two instructions. What a handler raises, as that of Ctrl-C does, ends the call.
InterruptCheck handling_signals();

/// Sends the lines that h5feed logged since the last call to Python's `logging`. Call with the GIL held. May
/// raise what a handler raises.
void deliver_log();

/// Binds the functions of the log and of forks, and starts collecting the log.
void bind_process(nb::module_& module);

}  // namespace h5feed::python
