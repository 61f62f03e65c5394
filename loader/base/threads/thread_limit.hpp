// SPDX-License-Identifier: Apache-2.0
// Errors of threads that the system does not start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace h5feed {

/// Returns the message if `error` says that the system starts no more threads, as the standard library or
/// oneTBB throws it; empty for all other errors.
std::string thread_limit_message(const std::exception& error);

/// Throws the exception that is being handled; if a thread could not be started, an Error that says how many
/// of the threads that `option` asks for were.
[[noreturn]] void rethrow_of_threads(std::string_view option, std::int64_t wanted, std::size_t started);

}  // namespace h5feed
