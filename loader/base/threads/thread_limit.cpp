// SPDX-License-Identifier: Apache-2.0
#include "base/threads/thread_limit.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include "h5feed/error.hpp"

namespace h5feed {

std::string thread_limit_message(const std::exception& error) {
  const std::string reason = std::generic_category().message(EAGAIN);
  // The standard library throws EAGAIN for threads only; failed calls of the system have errors of their own.
  const auto* const known = dynamic_cast<const std::system_error*>(&error);
  // oneTBB throws a std::runtime_error with a text of its own (handle_perror in src/tbb/misc.cpp).
  const bool of_tbb = std::string_view(error.what()) == "pthread_create has failed: " + reason;
  if (!of_tbb && (known == nullptr || known->code() != std::errc::resource_unavailable_try_again)) return {};
  return fmt::format(
      "the system starts no more threads ({}); raise the limit on processes and threads (ulimit -u, or the "
      "container's)",
      reason);
}

void rethrow_of_threads(std::string_view option, std::int64_t wanted, std::size_t started) {
  try {
    throw;
  } catch (const std::exception& error) {
    const std::string message = thread_limit_message(error);
    if (message.empty()) throw;
    throw Error(fmt::format("{} = {}: {} of them were started: {}, or lower {}", option, wanted, started,
                            message, option));
  }
}

}  // namespace h5feed
