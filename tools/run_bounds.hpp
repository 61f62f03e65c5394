// How many threads and processes options may ask for: some times more than the machine can run at once, which
// measurements may want to see, never so many that it comes to a stop.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/system_limits.hpp"

namespace h5feed::cli {

/// Most threads: 16 a usable core, at least 64, at most 1,024.
std::uint64_t most_threads(const SystemLimits& limits) noexcept;

/// Most processes that work at the same time and take `bytes_each`: 4 a usable core, at least 8, and no more
/// than the available memory holds; at least 1.
std::uint64_t most_processes(const SystemLimits& limits, std::uint64_t bytes_each) noexcept;

/// Throws OptionError that names the option, the machine and the most it can run.
void check_threads(std::string_view option, std::int64_t count, const SystemLimits& limits = system_limits());
void check_processes(std::string_view option, std::int64_t count, std::uint64_t bytes_each,
                     const SystemLimits& limits = system_limits());

/// The number of threads of --jobs, from its text; the usable cores where it is empty. Throws OptionError.
unsigned parse_jobs(std::string_view text, const SystemLimits& limits = system_limits());

}  // namespace h5feed::cli
