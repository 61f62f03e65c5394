// SPDX-License-Identifier: Apache-2.0
// Names of temporary files that nobody else can know in advance.
#pragma once

#include <filesystem>
#include <string>

namespace h5feed {

/// Returns 12 hexadecimal digits from the system's source of random numbers. Whoever may write to the folder
/// of a temporary file cannot put a link in its place before it is created. Throws std::exception if there
/// is no such source.
std::string random_digits();

/// Returns the path ".NAME.tmp-DIGITS" next to `target`, with new `random_digits`. Throws as these.
std::filesystem::path temporary_beside(const std::filesystem::path& target);

}  // namespace h5feed
