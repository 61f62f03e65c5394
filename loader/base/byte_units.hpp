// Sizes in bytes as people write and read them.
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

/// Parses "4096", "512KiB", "128 MiB", "1.5GiB" (powers of 1024), "2GB" (powers of 1000).
/// Empty when the text is not a size, is negative, or does not fit 64 bits.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

/// "512 B", "27 KiB", "171 MiB", "1.1 GiB": the largest unit that gives at least 1; one decimal below
/// 10 where it says more.
H5FEED_EXPORT std::string format_bytes(std::uint64_t bytes);

/// "299 MiB", "1.1 GiB": rounded up to whole MiB, from 1 GiB on to tenths. For "use at least" figures,
/// which must suffice when they are typed back.
std::string format_bytes_ceil(std::uint64_t bytes);

/// Integer with thousands separators: 116412 → "116,412".
std::string format_count(std::uint64_t value);

}  // namespace h5feed
