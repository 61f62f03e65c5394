// Names in the order in which people count.
#pragma once

#include <string_view>

namespace h5feed {

/// Whether `a` comes before `b`, runs of digits compared as numbers: traj_2 before traj_10. A strict weak
/// order in which only equal names are equivalent.
bool natural_less(std::string_view a, std::string_view b) noexcept;

/// Whether the text has one of the wildcards of fnmatch(3): * ? [
bool has_wildcard(std::string_view text) noexcept;

}  // namespace h5feed
