// SPDX-License-Identifier: Apache-2.0
// One request to a process that reads metadata, and the reply.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "h5feed/error.hpp"
#include "store/isolation/requests.hpp"

namespace h5feed {

/// Thrown if the other end closes the connection before it has replied.
struct ConnectionClosed {};

/// Returns the error that says that `file` made the process answer with `what`.
IsolationError nonsense_error(const std::string& file, const std::string& what);

/// Sends one request over a connection that no other thread uses meanwhile, and receives the reply. Holds no
/// mutex: while it waits, it calls the `InterruptCheck` of its thread. An exchange that has failed leaves a
/// connection that cannot be used any more.
class Exchange {
 public:
  /// How the request went, and the bytes of the reply unless they went into the caller's buffer.
  struct Reply {
    Outcome outcome = Outcome::done;
    std::vector<std::byte> bytes;
  };

  /// Borrows the descriptor `connection`, and `file`, which is what is read, for messages. The reply has to
  /// come within `limit` from now.
  Exchange(int connection, const std::string& file, std::chrono::milliseconds limit);

  /// Sends the request and returns its reply. A result goes into `out` if that is not empty, which it must
  /// then fill. Throws ConnectionClosed, IsolationError if the reply is nonsense or too late, and what
  /// `check_interrupt()` throws. In a process that this has forked, throws IsolationError and leaves the
  /// connection to the other one.
  Reply run(std::span<const std::byte> request, std::span<std::byte> out);

 private:
  void send(std::span<const std::byte> bytes) const;
  void receive(std::span<std::byte> bytes) const;
  void wait_until_ready(short events) const;

  const int connection_;
  const std::string& file_;
  const std::chrono::milliseconds limit_;
  const Clock::time_point deadline_ = Clock::now() + limit_;
  const pid_t process_;
};

}  // namespace h5feed
