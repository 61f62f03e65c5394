// SPDX-License-Identifier: Apache-2.0
// The page of a report.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/report/input.hpp"

namespace h5feed::cli {

/// Largest size of a page in bytes.
inline constexpr std::size_t kMostPageBytes = 200'000;

/// Returns the page: one HTML document without any external resource, of at most `kMostPageBytes`; long
/// records are shown with fewer points. The same inputs give the same bytes. Throws OptionError if the inputs
/// are too many for one page.
std::string page_of(const std::vector<Input>& inputs);

}  // namespace h5feed::cli
