// SPDX-License-Identifier: Apache-2.0
// Natural order of file and group names.
#pragma once

#include <string_view>

namespace h5feed {

/// Returns whether `a` comes before `b` in natural order: runs of digits compare as numbers, so that traj_2
/// comes before traj_10. A strict weak order; only equal names are equivalent.
bool natural_less(std::string_view a, std::string_view b) noexcept;

/// Returns whether the text contains a wildcard of fnmatch(3): * ? [
bool has_wildcard(std::string_view text) noexcept;

}  // namespace h5feed
