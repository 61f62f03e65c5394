// SPDX-License-Identifier: Apache-2.0
#include "tools/program/run_bounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "tools/program/option_text.hpp"

namespace h5feed::cli {
namespace {

std::string cores_text(const SystemLimits& limits) {
  return fmt::format("{} usable {}", limits.cpus, limits.cpus == 1 ? "core" : "cores");
}

// `count`: as the user gave it.
[[noreturn]] void refuse_threads(std::string_view option, std::string_view count,
                                 const SystemLimits& limits) {
  throw OptionError(fmt::format("{} {}: too many threads for this machine ({}); give at most {}", option,
                                count, cores_text(limits), most_threads(limits)));
}

}  // namespace

std::uint64_t most_threads(const SystemLimits& limits) noexcept {
  constexpr std::uint64_t kEachCore = 16, kAtLeast = 64, kAtMost = 1024;
  return std::clamp(kEachCore * limits.cpus, kAtLeast, kAtMost);
}

std::uint64_t most_processes(const SystemLimits& limits, std::uint64_t bytes_each) noexcept {
  constexpr std::uint64_t kEachCore = 4, kAtLeast = 8;
  const std::uint64_t by_cores = std::max(kEachCore * limits.cpus, kAtLeast);
  return std::clamp<std::uint64_t>(limits.available_bytes / std::max<std::uint64_t>(1, bytes_each), 1,
                                   by_cores);
}

void check_threads(std::string_view option, std::int64_t count, const SystemLimits& limits) {
  if (count < 0 || static_cast<std::uint64_t>(count) <= most_threads(limits)) return;
  refuse_threads(option, fmt::to_string(count), limits);
}

void check_processes(std::string_view option, std::int64_t count, std::uint64_t bytes_each,
                     const SystemLimits& limits) {
  const std::uint64_t most = most_processes(limits, bytes_each);
  if (count < 0 || static_cast<std::uint64_t>(count) <= most) return;
  throw OptionError(
      fmt::format("{} {}: too many processes for this machine ({}, {} of memory available, about {} for each "
                  "process); give "
                  "at most {}",
                  option, count, cores_text(limits), format_bytes(limits.available_bytes),
                  format_bytes(bytes_each), most));
}

unsigned parse_jobs(std::string_view text, const SystemLimits& limits) {
  constexpr std::string_view kOption = "--jobs";
  if (text.empty()) return limits.cpus;
  const std::uint64_t most = most_threads(limits);
  std::uint64_t jobs = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, jobs);
  const bool too_large = error == std::errc::result_out_of_range || (error == std::errc() && jobs > most);
  if (rest == end && too_large) refuse_threads(kOption, text, limits);
  return static_cast<unsigned>(parse_number(kOption, text, 1));
}

}  // namespace h5feed::cli
