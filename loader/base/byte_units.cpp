// SPDX-License-Identifier: Apache-2.0
#include "base/byte_units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace h5feed {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr std::array<Unit, 21> kUnits = {{
    {"", 1.0},
    {"B", 1.0},
    {"KiB", 1024.0},
    {"MiB", 1048576.0},
    {"GiB", 1073741824.0},
    {"TiB", 1099511627776.0},
    {"PiB", 1125899906842624.0},
    {"EiB", 1152921504606846976.0},
    {"KB", 1e3},
    {"kB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"PB", 1e15},
    {"EB", 1e18},
    {"K", 1024.0},
    {"M", 1048576.0},
    {"G", 1073741824.0},
    {"T", 1099511627776.0},
    {"P", 1125899906842624.0},
    {"E", 1152921504606846976.0},
}};

std::string_view trim_left(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

}  // namespace

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  text = trim_left(text);
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
  const std::string_view unit = trim_left(text.substr(static_cast<std::size_t>(end - text.data())));
  for (const Unit& candidate : kUnits) {
    if (unit != candidate.name) continue;
    const double bytes = value * candidate.bytes;
    if (bytes >= 18446744073709551616.0) return std::nullopt;
    return static_cast<std::uint64_t>(bytes);
  }
  return std::nullopt;
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array<std::pair<const char*, std::uint64_t>, 4> kSteps = {
      {{"TiB", 1024 * kGiB}, {"GiB", kGiB}, {"MiB", kMiB}, {"KiB", kKiB}}};
  for (const auto& [name, size] : kSteps) {
    if (bytes < size) continue;
    const double value = static_cast<double>(bytes) / static_cast<double>(size);
    const double tenths = std::round(value * 10) / 10;
    if (tenths < 10 && tenths != std::floor(tenths)) return fmt::format("{:.1f} {}", tenths, name);
    return fmt::format("{:.0f} {}", value, name);
  }
  return fmt::format("{} B", bytes);
}

std::string format_bytes_ceil(std::uint64_t bytes) {
  if (bytes < kGiB) return fmt::format("{} MiB", bytes / kMiB + (bytes % kMiB != 0 ? 1 : 0));
  const double tenths = std::ceil(static_cast<double>(bytes) / static_cast<double>(kGiB) * 10);
  return fmt::format("{:.1f} GiB", tenths / 10);
}

std::string format_count(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string format_counted(std::int64_t count, const char* one, const char* several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

}  // namespace h5feed
