// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/host_share.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace h5feed {
namespace {

// Returns the number of "4" and of "4(x2)", which is Slurm's for "4,4"; nullopt for anything else.
std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 1 || number > kMaxWorldSize) return std::nullopt;
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (!rest.empty() && !(rest.starts_with("(x") && rest.ends_with(')'))) return std::nullopt;
  return number;
}

// Returns the largest number of a list such as "4(x2),3", which has one for each host; nullopt if an element
// has none.
std::optional<std::int64_t> largest_of(std::string_view list) {
  std::optional<std::int64_t> largest = 0;
  for (std::size_t begin = 0, end = 0; largest && end != std::string_view::npos; begin = end + 1) {
    end = list.find(',', begin);
    const std::optional<std::int64_t> number = number_of(list.substr(begin, end - begin));
    largest = number ? std::max(largest, number) : std::nullopt;
  }
  return largest;
}

}  // namespace

std::int64_t local_processes(std::int64_t given, const Variable& variable) {
  if (given > 0) return given;
  static constexpr std::array<const char*, 5> kNames = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                                        "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE",
                                                        "SLURM_NTASKS_PER_NODE"};
  for (const char* const name : kNames) {
    const char* const text = variable(name);
    if (text == nullptr) continue;
    if (const std::optional<std::int64_t> number = largest_of(text)) return *number;
  }
  return 1;
}

std::int64_t local_processes(std::int64_t given) {
  return local_processes(given, [](const char* name) -> const char* { return std::getenv(name); });
}

double cpu_share(const SystemLimits& limits, std::int64_t processes) noexcept {
  const auto parts = static_cast<double>(processes);
  const bool own = limits.cpus_bound_by == "affinity" && limits.cpus * parts <= limits.host_cpus;
  return own ? limits.cpus : limits.cpus / parts;
}

std::string cpu_share_bound_by(const SystemLimits& limits, std::int64_t processes) {
  if (cpu_share(limits, processes) == limits.cpus) return limits.cpus_bound_by;
  return fmt::format("{}, shared by {} processes", limits.cpus_bound_by, processes);
}

std::uint64_t memory_share(const SystemLimits& limits, std::int64_t processes) noexcept {
  return limits.available_bytes / static_cast<std::uint64_t>(processes);
}

}  // namespace h5feed
