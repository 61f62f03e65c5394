// SPDX-License-Identifier: Apache-2.0
// Parsing and formatting of sizes in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "h5feed/export.hpp"

namespace h5feed {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

/// Parses "4096", "512KiB", "128 MiB", "1.5GiB" (powers of 1024), "2GB" (powers of 1000). Returns nullopt if
/// the text is not a size, is negative, or does not fit 64 bits.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

/// Formats a size: "512 B", "27 KiB", "171 MiB", "1.1 GiB". Uses the largest unit that gives at least 1, with
/// one decimal below 10 unless it is 0.
H5FEED_EXPORT std::string format_bytes(std::uint64_t bytes);

/// Formats a size rounded up to whole MiB, from 1 GiB on to tenths of a GiB: "299 MiB", "1.1 GiB". For "use
/// at least" figures, which must suffice when a user types them back.
std::string format_bytes_ceil(std::uint64_t bytes);

/// Formats an integer with thousands separators: 116412 → "116,412".
std::string format_count(std::uint64_t value);
/// Returns the count with the word for it: "1 worker", "2 workers".
std::string format_counted(std::int64_t count, const char* one, const char* several);

}  // namespace h5feed
