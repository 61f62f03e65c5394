// SPDX-License-Identifier: Apache-2.0
// Upper bounds for the threads and processes that options may ask for: more than the machine runs at once,
// since measurements may want that, but not enough to bring it to a halt.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/system_limits.hpp"

namespace h5feed::cli {

/// Returns the most threads allowed: 16 per usable core, at least 64, at most 1,024.
std::uint64_t most_threads(const SystemLimits& limits) noexcept;

/// Returns the most simultaneous processes of `bytes_each` allowed: 4 per usable core, at least 8, limited by
/// available memory; at least 1.
std::uint64_t most_processes(const SystemLimits& limits, std::uint64_t bytes_each) noexcept;

/// Throws OptionError that names the option, the machine and its bound if `count` exceeds `most_threads`.
void check_threads(std::string_view option, std::int64_t count, const SystemLimits& limits = system_limits());
/// Throws OptionError that names the option, the machine and its bound if `count` exceeds `most_processes`.
void check_processes(std::string_view option, std::int64_t count, std::uint64_t bytes_each,
                     const SystemLimits& limits = system_limits());

/// Parses the number of threads of --jobs; empty text means all usable cores. Throws OptionError.
unsigned parse_jobs(std::string_view text, const SystemLimits& limits = system_limits());

}  // namespace h5feed::cli
