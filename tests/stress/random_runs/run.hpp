// SPDX-License-Identifier: Apache-2.0
// One random run: a dataset, and one or two trainings on it at the same time.
#pragma once

#include <cstdint>
#include <filesystem>

#include "stress/random_runs/story.hpp"

namespace h5feed::test {

/// Does the run of a seed with files in `folder`, an empty one. Throws Mismatch, and what should not have
/// been thrown.
void random_run(std::uint64_t seed, const std::filesystem::path& folder, Story& story);

}  // namespace h5feed::test
